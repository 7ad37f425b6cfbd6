"""A cache that is written by builds that are killed, stopped, refused, or two at once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import SECONDS, until

from .mounted import run

PROGRAM = """
import pathlib
def f(x):
    pathlib.Path(__file__).with_name("traced").touch()
    return x * 2
def g(x):
    return x + 3
"""

MANIFEST = """
schema = 1
name = "tiny"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "cpu-x86-64-v2"]
[entry_points.f]
function = "tiny:f"
inputs.x = { shape = [8], dtype = "float32" }
[entry_points.g]
function = "tiny:g"
inputs.x = { shape = [8], dtype = "float32" }
"""


@pytest.mark.parametrize(
    ("fault", "code"), [("KILL", -9), ("INTERRUPT", 130), ("FULL", 0), ("READ_ONLY", 0)]
)
def test_entry_is_old_or_new_whatever_happens(fault: str, code: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.cache_sweep", fault, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    records: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(records) >= 5
    for record in records:
        assert record["code"] == code, record
        assert record["state"] in ("old", "new"), record
        assert (record["again"], record["then"], record["left"]) == (0, "new", []), record
    if fault == "KILL":
        assert {record["state"] for record in records} == {"old", "new"}
        assert any(record["litter"] for record in records)


def arguments(folder: Path, output: str) -> list[str]:
    paths = [str(folder / name) for name in ("tiny.toml", output, "cache")]
    return ["build", paths[0], "-o", paths[1], "--cache", paths[2]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", sys.argv)
    (tmp_path / "tiny.py").write_text(PROGRAM)
    (tmp_path / "tiny.toml").write_text(MANIFEST)
    return tmp_path


def report(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=2 * SECONDS)
    document: dict[str, Any] = json.loads(out)
    assert process.returncode == 0, document
    return document


def ran(document: dict[str, Any]) -> set[str]:
    return {task["kind"] for task in document["tasks"] if not task["cached"]}


def start(folder: Path, output: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "aotc.cli.main", *arguments(folder, output), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def built(folder: Path, output: str) -> dict[str, Any]:
    """Return the output of an undisturbed build."""
    code, document = run(arguments(folder, output))
    assert code == 0, document
    return document


def test_builds_that_share_a_cache_at_once_give_the_same_and_leave_it_whole(folder: Path) -> None:
    both = [start(folder, f"{number}.aotb") for number in range(2)]
    documents = [report(process) for process in both]
    last = built(folder, "last.aotb")
    assert len({document["root_digest"] for document in (*documents, last)}) == 1
    assert ran(last) == {"capture", "pack"}
    assert not [note for note in last["notes"] if "cache" in note]


def test_a_killed_build_leaves_a_cache_from_which_the_next_one_goes_on(folder: Path) -> None:
    build = start(folder, "killed.aotb")
    until((folder / "traced").exists, "the build traces", build)
    os.killpg(build.pid, signal.SIGKILL)
    build.communicate()
    assert not (folder / "killed.aotb").exists()
    again, last = built(folder, "again.aotb"), built(folder, "last.aotb")
    assert again["root_digest"] == last["root_digest"] and ran(last) == {"capture", "pack"}


def processes_of_session(session: int) -> list[int]:
    """Whatever groups they lead; without those that nobody has asked how they ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, of = (path / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == session and state != "Z":
            found.append(int(path.name))
    return found


def test_ctrl_c_leaves_no_process_and_a_whole_cache(folder: Path) -> None:
    build = start(folder, "stopped.aotb")
    until((folder / "traced").exists, "the build traces", build)
    build.send_signal(signal.SIGINT)
    out, _ = build.communicate(timeout=SECONDS)
    assert build.returncode == 130 and json.loads(out)["exit_code"] == 130
    assert processes_of_session(build.pid) == []
    assert not (folder / "stopped.aotb").exists()
    assert not list((folder / "cache").rglob(".*"))
