"""From what a server saw to the profiles of the next bundle, and back: split calls included."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from hostile.doors import toolchain
from small_programs import build_signed

import aotc_runtime
from aotc.commands.profiles.cost_probe import CostKind
from aotc.commands.profiles.manifest_edit import write_profiles
from aotc.commands.profiles.suggested_profiles import suggest
from aotc.commands.profiles.traffic_check import check_bundle

PROGRAM = """
def double(x):
    return x * 2
"""

MANIFEST = """\
schema = 1
name = "double"
version = "1.0.0"
targets = ["native"]

[dimensions.batch]
range = [1, 64]
profiles = [1, 8, 64]

[entry_points.double]
function = "program:double"
inputs.x = { shape = ["batch", 4], dtype = "float32" }
out_of_profile = { batch = "split" }
fixtures = { seed = 0 }
"""


def seen(bundle: Path, trust: Path, batches: list[int], log: Path) -> None:
    """Call it with these batches, and write its report."""
    with aotc_runtime.load(bundle, trust=trust) as loaded:
        for batch in batches:
            x = np.arange(4.0 * batch, dtype=np.float32).reshape(batch, 4)
            np.testing.assert_array_equal(loaded["double"](x), 2 * x)
        log.write_text(json.dumps(loaded.report()), "utf-8")


def test_a_bundle_with_the_suggested_profiles_serves_all_of_its_own_report(tmp_path: Path) -> None:
    batches = [1, 2, 2, 4, 12, 12, 12, 24, 30]
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = build_signed(tmp_path / "first", "double", PROGRAM, MANIFEST)
    seen(*first, batches, tmp_path / "seen.json")
    (checked,), _ = check_bundle(first[0], tmp_path / "seen.json")
    assert (checked.covered, checked.requests) == (len(batches), len(batches))
    assert checked.split == 8
    assert checked.calls == 1 + 2 + 2 + 4 + 3 * 5 + 3 + 9
    manifest = tmp_path / "first" / "manifest.toml"
    suggestion = suggest(manifest, tmp_path / "seen.json", most=3, kind=CostKind.ELEMENTS)
    assert {"batch": 1} in suggestion.profiles
    assert suggestion.served.covered == len(batches)
    write_profiles(suggestion)
    second = build_signed(tmp_path / "second", "double", PROGRAM, manifest.read_text())
    seen(*second, [*batches, 3, 63], tmp_path / "again.json")
    (again,), _ = check_bundle(second[0], tmp_path / "again.json")
    assert (again.covered, again.padding) == (len(batches) + 2, 0.0)


def test_the_commands_of_the_page_work_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the encoder of the examples, but for its layers, which take most of the time."""
    root = Path(__file__).parents[2]
    page = (root / "docs" / "guides" / "profiles.md").read_text()
    shutil.copytree(root / "manifests", tmp_path / "manifests")
    model = tmp_path / "manifests" / "encoder" / "model.py"
    text = model.read_text()
    assert text.count("\nLAYERS = 2\n") == 1
    model.write_text(text.replace("\nLAYERS = 2\n", "\nLAYERS = 0\n"))
    lines = re.findall(r"^    (\{.*\})$", page, re.MULTILINE)
    assert len(lines) == 3
    (tmp_path / "shapes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    block = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert block
    commands = block.group(1).splitlines()
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
