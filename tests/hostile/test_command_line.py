"""What a person and a script see: exit code 5, one JSON document, and nothing is ever loaded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text

from .tampering import (
    MemoryBundle,
    write_folder,
)


def bad_name(genuine: MemoryBundle, folder: Path) -> Path:
    layout = write_folder(folder / "layout", genuine)
    Path(os.fsdecode(os.fsencode(layout) + b"/\xff\x1b[2J")).write_bytes(b"")
    return layout


def aotc(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    code = "from aotc.cli.main import main\nmain()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_verify_tells_people_on_stderr_without_steering_their_terminal(
    genuine: MemoryBundle, digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    done = aotc("verify", bad_name(genuine, tmp_path), "--trust", digits_bundle[1])
    assert done.returncode == 5
    assert done.stdout == "" and "AOTC-E109" in done.stderr and "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: text.replace('name = "digits"', 'name = "vision"'), "AOTC-E306"),
        (lambda text: 'minimum_version = "1.0.1"\n' + text, "AOTC-E307"),
        (lambda text: text.replace("threshold = 1", "threshold = 2"), "AOTC-E309"),
        (lambda text: text.replace("PUBLIC KEY", "PRIVATE KEY"), "AOTC-E310"),
        (lambda text: policy_text("digits", [LocalSigner.ephemeral().public_pem()]), "AOTC-E302"),
        (lambda text: text + "\nunknown = 1\n", "AOTC-E309"),
        (lambda text: "schema = ", "AOTC-E309"),
    ],
    ids=["name", "version", "threshold", "key", "another key", "unknown field", "no TOML"],
)
def test_verify_exits_with_5_where_the_policy_does_not_accept_the_bundle(
    change: Callable[[str], str], code: str, digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    policy = tmp_path / "trust.toml"
    policy.write_text(change(digits_bundle[1].read_text()))
    done = aotc("verify", digits_bundle[0], "--trust", policy, "--json")
    assert done.returncode == 5
    assert json.loads(done.stdout)["findings"][0]["code"] == code


def test_verify_accepts_the_genuine_bundle(digits_bundle: tuple[Path, Path]) -> None:
    done = aotc("verify", digits_bundle[0], "--trust", digits_bundle[1], "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["gates"][-1] == "host"


ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "runtime" / "README.md", *sorted(ROOT.glob("docs/*.md")))
_COMMAND = re.compile(
    r"^((?:python\S* (?:-P )?-m aotc_runtime|aotc-runtime|aotc) (?:verify|host-info)\b[^#|>\n]*)",
    re.MULTILINE,
)
# Those that ask a registry or a channel are run where one answers, with their pages.
DOCUMENTED = sorted(
    {
        match[1].strip()
        for page in PAGES
        for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
        for match in _COMMAND.finditer(block)
        if not any(word in match[1] for word in ("--channel", "oci://"))
    }
)


def test_the_pages_say_how_to_verify_with_the_runtime_alone() -> None:
    assert any(command.startswith("aotc-runtime verify") for command in DOCUMENTED)
    assert any(command.startswith("aotc verify") for command in DOCUMENTED)


@pytest.mark.parametrize("command", [*DOCUMENTED, "python -P -m aotc_runtime host-info"])
def test_no_documented_command_imports_from_the_current_folder(
    command: str, digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    """Whoever can write there would decide what a deploy gate says."""
    for name in ("msgspec", "json", "argparse", "numpy", "aotc_runtime", "click", "aotc"):
        (tmp_path / f"{name}.py").write_text(f"open('{tmp_path}/ran', 'w')")
    bundle, policy = digits_bundle
    (tmp_path / "trust.toml").symlink_to(policy)
    for name in re.findall(r"\S+\.aotb", command):
        (tmp_path / name).symlink_to(bundle)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        command.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert not (tmp_path / "ran").exists()
    assert done.returncode == 0, done.stderr
