"""Ctrl-C and SIGTERM: one line, the shell's exit code, no child process and no file left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc_runtime.system import store

Run = Callable[..., Any]
AOTC = (sys.executable, "-m", "aotc.cli.main")

STOPS = [(signal.SIGINT, 130, "aborted\n"), (signal.SIGTERM, 143, "terminated\n")]

PROGRAM = """
import os, pathlib, time
pathlib.Path("traced").write_text(str(os.getpid()))
def f(x):
    time.sleep(60)
"""

SLOW_TO_COMPILE = """
import jax
def f(x):
    for _ in range(400):
        x = jax.numpy.sort(x @ x) + jax.numpy.linalg.inv(x)
    return x
"""

MANIFEST = """
schema = 1
name = "slow"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
[entry_points.f]
function = "slow:f"
inputs.x = { shape = [8, 8], dtype = "float32" }
"""


def test_ctrl_c_is_one_line_or_one_document(aotc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "open_bundle", interrupted)
    done = aotc("inspect", "b")
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "aborted\n")
    as_json = aotc("inspect", "b", "--json")
    assert (as_json.exit_code, as_json.stderr) == (130, "")
    document = as_json.document
    assert (document["ok"], document["exit_code"]) == (False, 130)
    (finding,) = document["findings"]
    assert (finding["code"], finding["where"]) == ("AOTC-E981", "aotc inspect")


def test_signals_are_handled_as_before_when_a_command_has_ended(aotc: Run) -> None:
    before = [signal.getsignal(number) for number, _, _ in STOPS]
    aotc("targets", "list")
    assert [signal.getsignal(number) for number, _, _ in STOPS] == before


@pytest.fixture
def building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Start a build of a program, and wait until a file says that it is under way."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "slow.toml").write_text(MANIFEST)

    def start(source: str, under_way: str, *options: str) -> subprocess.Popen[str]:
        (tmp_path / "slow.py").write_text(source)
        process = subprocess.Popen(
            [*AOTC, "build", "slow.toml", *options],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not list(tmp_path.glob(under_way)):
            assert process.poll() is None, process.communicate()
        return process

    return start


@pytest.mark.parametrize(("number", "exit_code", "line"), STOPS)
def test_a_stopped_build_ends_the_capture_and_removes_its_folder(
    building: Callable[..., Any], tmp_path: Path, number: int, exit_code: int, line: str
) -> None:
    with building(PROGRAM, "traced") as process:
        process.send_signal(number)
        assert process.communicate() == ("", line)
    assert process.returncode == exit_code
    assert list((tmp_path / "temporary").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "traced").read_text()), 0)


def test_a_stopped_build_ends_its_compilers_and_says_so_in_json(
    building: Callable[..., Any], tmp_path: Path
) -> None:
    with building(SLOW_TO_COMPILE, "temporary/aotc-compile-*/module.bin", "--json") as process:
        process.terminate()
        stdout, stderr = process.communicate()
    document = json.loads(stdout)
    assert (process.returncode, stderr, document["exit_code"]) == (143, "", 143)
    assert document["findings"][0]["code"] == "AOTC-E982"
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not [
        path for path in working_folders() if "aotc-compile-" in path and str(tmp_path) in path
    ]


def working_folders() -> list[Path]:
    """Of all processes; that of a removed folder ends in " (deleted)"."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cwd").readlink())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("module", ["click", "msgspec", "aotc.cli.bench", "aotc_runtime.errors"])
def test_ctrl_c_while_the_first_modules_are_imported_is_no_traceback(
    module: str, options: list[str]
) -> None:
    probe = f"""
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["aotc", "inspect", "b", *{options!r}]
from aotc.cli.main import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    if options:
        assert json.loads(done.stdout)["findings"][0]["code"] == "AOTC-E981"
    else:
        assert (done.stdout, done.stderr) == ("", "aborted\n")
