"""Output for a hostile bundle, and what the working directory may not decide."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Bundle
from tests.documented import blocks_of

from .tampering import MemoryBundle, write_folder


def test_verify_escapes_text(genuine: MemoryBundle, digits_bundle: Bundle, tmp_path: Path) -> None:
    layout = write_folder(tmp_path / "layout", genuine)
    Path(os.fsdecode(os.fsencode(layout) + b"/\xff\x1b[2J")).write_bytes(b"")
    command = [sys.executable, "-m", "aotc.cli.main", "verify", layout, "--trust", digits_bundle[1]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert done.stdout == "" and "AOTC-E109" in done.stderr and "\x1b" not in done.stderr


ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "runtime" / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
_COMMAND = re.compile(
    r"^((?:python\S* (?:-P )?-m aotc_runtime|aotc-runtime|aotc) (?:verify|host-info)\b[^#|>\n]*)",
    re.MULTILINE,
)
# Those that ask a registry or a channel are run where one answers, with their pages.
DOCUMENTED = sorted(
    {
        match[1].strip()
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "sh"
        for match in _COMMAND.finditer(block.code)
        if not any(word in match[1] for word in ("--channel", "oci://"))
    }
)


def test_the_pages_say_how_to_verify_with_the_runtime_alone() -> None:
    assert any(command.startswith("aotc-runtime verify") for command in DOCUMENTED)
    assert any(command.startswith("aotc verify") for command in DOCUMENTED)


@pytest.mark.parametrize("command", [*DOCUMENTED, "python -P -m aotc_runtime host-info"])
def test_commands_skip_current_folder(command: str, digits_bundle: Bundle, tmp_path: Path) -> None:
    """Whoever can write there would decide what a deploy gate says."""
    aotc = Path(sys.executable).parent / "aotc"
    for name in re.findall(r"(\S+)\.key", command):
        subprocess.run([aotc, "keygen", "--plain", name], cwd=tmp_path, check=True)
    for name in ("msgspec", "json", "argparse", "numpy", "aotc_runtime", "click", "aotc"):
        (tmp_path / f"{name}.py").write_text(f"open('{tmp_path}/ran', 'w')")
    bundle, policy = digits_bundle
    for name in re.findall(r"\S+\.toml", command):
        (tmp_path / name).symlink_to(policy)
    for name in re.findall(r"\S+\.aotb", command):
        (tmp_path / name).symlink_to(bundle)
    environment = {**os.environ, "PATH": f"{aotc.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert not (tmp_path / "ran").exists()
    assert done.returncode == 0, done.stderr
