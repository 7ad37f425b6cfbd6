"""From what a server saw to the profiles of the next bundle, and back: split calls included."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from hostile.doors import toolchain

from tests.documented import blocks_of


def test_the_commands_of_the_page_work_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the encoder of the examples, but for its layers, which take most of the time."""
    root = Path(__file__).parents[2]
    page = root / "docs" / "guides" / "profiles.md"
    shutil.copytree(root / "manifests", tmp_path / "manifests")
    model = tmp_path / "manifests" / "encoder" / "model.py"
    text = model.read_text()
    assert text.count("\nLAYERS = 2\n") == 1
    model.write_text(text.replace("\nLAYERS = 2\n", "\nLAYERS = 0\n"))
    lines = re.findall(r"^    (\{.*\})$", page.read_text("utf-8"), re.MULTILINE)
    assert len(lines) == 3
    (tmp_path / "shapes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    commands = next(block.code for block in blocks_of(page) if block.language == "sh").splitlines()
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path)
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "aotc"
        capfd.readouterr()
        assert toolchain(words[1:]) == 0, command
        printed = capfd.readouterr().out
        assert "left out" not in printed and "outside" not in printed
    assert "100 % covered, 0 % padding" in printed
