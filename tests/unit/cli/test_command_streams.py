"""Tests of commands whose stdout or stderr is closed, full, or without a reader."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import Bundle

AOTC = (sys.executable, "-m", "aotc.cli.main")
RUNTIME = (sys.executable, "-m", "aotc_runtime")


def shell(line: str, command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with the redirections of a shell line; "$@" is the command."""
    return subprocess.run(
        ["bash", "-c", line, "bash", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def commands(bundle: Bundle) -> dict[str, list[str]]:
    """Click's own text, text and documents of ours, and those of the runtime's command."""
    path, policy = map(str, bundle)
    return {
        "help": [*AOTC, "--help"],
        "inspect": [*AOTC, "inspect", path],
        "inspect --json": [*AOTC, "inspect", path, "--json"],
        "runtime verify": [*RUNTIME, "verify", path, "--trust", policy],
        "runtime verify --json": [*RUNTIME, "verify", path, "--trust", policy, "--json"],
    }


NAMES = list(commands((Path(), Path())))


@pytest.mark.parametrize("name", NAMES)
def test_closed_reader_ends_quietly(digits_bundle: Bundle, tmp_path: Path, name: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        commands(digits_bundle)[name], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("stream", "found"), [(">/dev/full", "No space left on device"), (">&-", "a closed one")]
)
@pytest.mark.parametrize("name", NAMES)
def test_a_stdout_that_takes_nothing_is_named_and_no_bug(
    digits_bundle: Bundle, tmp_path: Path, name: str, stream: str, found: str
) -> None:
    done = shell(f'"$@" {stream}', commands(digits_bundle)[name], tmp_path)
    first, _, third, _ = done.stderr.splitlines()
    assert (done.returncode, first) == (2, "error[AOTC-E003]: stdout is not writable")
    assert third.split(maxsplit=1) == ["found", found]


def test_closed_stdin_and_stderr_change_no_exit_code_and_no_file(tmp_path: Path) -> None:
    """The first file that is opened must not become the stream that is missing."""
    refused = shell('"$@" 2>&-', [*AOTC, "inspect", "gone"], tmp_path)
    assert (refused.returncode, refused.stdout) == (5, "")
    asked = shell('"$@" <&-', [*AOTC, "keygen", "ci"], tmp_path)
    assert (asked.returncode, asked.stderr[:16]) == (2, "error[AOTC-E009]")
    made = shell('"$@" <&- 2>&-', [*AOTC, "keygen", "ci", "--plain"], tmp_path)
    assert made.returncode == 0
    assert (tmp_path / "ci.key").read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert len((tmp_path / "ci.pub").read_text().splitlines()) == 3


@pytest.mark.parametrize("name", ["inspect", "runtime verify"])
def test_flags_that_xla_does_not_know_do_not_end_a_command(
    digits_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    command = commands(digits_bundle)[name]
    wanted = shell('"$@"', command, tmp_path)
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    monkeypatch.setenv("TF_XLA_FLAGS", "--no_such_flag=1")
    done = shell('"$@"', command, tmp_path)
    assert (done.returncode, done.stdout) == (0, wanted.stdout)
    note = "note: TF_XLA_FLAGS, XLA_FLAGS ignored; compiler options belong in target files\n"
    assert done.stderr == note


def test_flags_that_xla_does_not_know_do_not_end_a_run(
    digits_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, policy = map(str, digits_bundle)
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    run = [*AOTC, "run", bundle, "predict", "--trust", policy, "--input", "image=1x64xf32"]
    assert shell('"$@"', run, tmp_path).returncode == 0
    assert shell('"$@"', [*AOTC, "targets", "detect"], tmp_path).returncode == 0


def test_broken_stderr_is_no_bug(digits_bundle: Bundle, tmp_path: Path) -> None:
    done = shell('"$@" >/dev/full 2>/dev/full', commands(digits_bundle)["inspect"], tmp_path)
    assert done.returncode == 2
