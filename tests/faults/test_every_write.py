"""Killed, interrupted, without room or not allowed to write, at every call that does: there is the
old result or the new one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aotc.commands.registry.bundle_push import push
from aotc_runtime.system.streamed_bundle import open_streamed
from tests.faults.registry_sweep import there
from tests.memory_files import folder_in_memory
from tests.registries.conftest import GOLDEN, LAYERS
from tests.registries.oci_server import Handler, OciServer
from tests.running import python
from tests.waiting import SECONDS, started, until

from .mounted import run

FILES = (
    *("sign a file", "build over a file", "build a new file", "build a new file from files"),
    *("build two files", "keygen", "trust init", "trust add-key", "trust revoke"),
    *("publish in a channel", "merge", "extract"),
)
FOLDERS = (
    "sign a folder",
    "build over a folder",
    "build a new folder",
    "build a folder beside one",
)
IN_TWO_STEPS = "sign a folder where names cannot be exchanged"

KILLED = [*FILES, "write arrays", *FOLDERS, IN_TWO_STEPS]
REFUSED = [*FILES, "write arrays", "sign a folder", IN_TWO_STEPS]

ONE_OF_TWO = {"keygen": "a private key", "build two files": "a bill"}
"""What may be there alone."""

NEW = (
    *("build a new file", "build a new file from files", "build a new folder"),
    *("build a folder beside one", "trust init", "merge", "extract"),
)
"""What none was before."""

STRIDE = 1 if os.environ.get("AOTC_FAULTS") == "all" else 6
"""In folders, the same five calls are made for each file."""


type Outcomes = Callable[[str, str], list[dict[str, Any]]]
"""Of an operation's name and a fault: a record for each call that was hit."""


@pytest.fixture(scope="module")
def outcomes(
    digits_bundle: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcomes]:
    """All are asked of one process, which imports the toolchain once and forks for each."""
    # What is asked here is not whether the disk syncs.
    otherwise = tmp_path_factory.mktemp("sweeps")
    command = [sys.executable, "-m", "tests.faults.sweep", str(digits_bundle[0])]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sweeper:
        assert sweeper.stdin and sweeper.stdout
        asked, answered = sweeper.stdin, sweeper.stdout

        def records(name: str, fault: str) -> list[dict[str, Any]]:
            stride = STRIDE if "folder" in name else 1
            with folder_in_memory(otherwise) as folder:
                asked.write(json.dumps([name, fault, folder, stride]) + "\n")
                asked.flush()
                code = answered.readline()
                errors = Path(folder, "errors").read_text("utf-8")
                assert (code, errors) == ("0\n", ""), errors
                records_file = Path(folder, "records.json")
                found: list[dict[str, Any]] = json.loads(records_file.read_bytes())
            assert len(found) >= 5 and all(record["call"] for record in found)
            return found

        yield records
        asked.close()


def states_of(name: str) -> set[str]:
    # Two names cannot appear in one step; a key without its public half is whole, and a bill of
    # materials is of use without its bundle.
    if name in ONE_OF_TWO:
        return {"none", "new", ONE_OF_TWO[name]}
    return {"none", "new"} if name in NEW else {"old", "new"}


def ends_well_when_run_again(name: str, record: dict[str, Any]) -> None:
    assert record["left"] == [], record
    done = {"keygen": {"a private key", "new"}, "trust init": {"new"}, "trust add-key": {"new"}}
    if record["state"] in done.get(name, ()):
        # What exists is not overwritten, and a key is not added twice.
        assert (record["again"], record["then"]) == (2, record["state"]), record
    else:
        assert (record["again"], record["then"]) == (0, "new"), record


@pytest.mark.parametrize("name", KILLED)
def test_kill_leaves_old_or_new_and_next_run_tidies_up(name: str, outcomes: Outcomes) -> None:
    records = outcomes(name, "KILL")
    allowed = states_of(name) | ({"aside"} if name == IN_TWO_STEPS else set())
    for record in records:
        assert record["code"] == -9
        assert record["state"] in allowed and record["strange"] == [], record
        ends_well_when_run_again(name, record)
    assert {record["state"] for record in records} == allowed, "each was met"
    assert any(record["litter"] for record in records)


@pytest.mark.parametrize("name", REFUSED)
def test_ctrl_c_leaves_old_or_new_and_nothing_else(name: str, outcomes: Outcomes) -> None:
    for record in outcomes(name, "INTERRUPT"):
        assert (record["code"], record["litter"]) == (130, []), record
        assert record["state"] in states_of(name) - {*ONE_OF_TWO.values()}, record


@pytest.mark.parametrize("name", REFUSED)
def test_full_disk_is_an_error_and_leaves_the_old_result(name: str, outcomes: Outcomes) -> None:
    """Calls that tidy up may fail without harm, and the last one only makes the rename last."""
    records = outcomes(name, "FULL")
    for record in records:
        assert record["code"] in (0, 2) and record["litter"] == [], record
        assert record["state"] in states_of(name) - {"a private key"}, record
        assert record["said"] == ("AOTC-E003" if record["code"] else ""), record
        if record["code"] == 0:
            assert record["state"] == "new", record
    assert sum(record["code"] == 2 for record in records) > 3


@pytest.mark.parametrize("name", REFUSED)
def test_read_only_place_is_an_error_and_nothing_is_half(name: str, outcomes: Outcomes) -> None:
    """A file that cannot be removed has a temporary name, and the next run removes it."""
    first, *later = outcomes(name, "READ_ONLY")
    assert (first["code"], first["said"], first["litter"]) == (2, "AOTC-E003", []), first
    assert first["state"] == ("old" if "old" in states_of(name) else "none"), first
    allowed = states_of(name) | ({"aside"} if name == IN_TWO_STEPS else set())
    for record in later:
        assert record["code"] in (0, 2) and record["strange"] == [], record
        assert record["said"] == ("AOTC-E003" if record["code"] else ""), record
        assert record["state"] in allowed, record
        ends_well_when_run_again(name, record)


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
    done = python("-m", "tests.faults.cache_sweep", fault, tmp_path)
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


REPO = "models/layers"
SWEEP = [sys.executable, "-m", "tests.faults.registry_sweep"]


@pytest.fixture
def server() -> Iterator[OciServer]:
    running = OciServer()
    yield running
    running.close()


@pytest.fixture
def place(server: OciServer) -> str:
    with there(f"oci://{server.address}/{REPO}") as repository:
        return str(push(open_streamed(LAYERS), repository, None, 0.0).place)


def swept(what: str, fault: str, place: str, tmp_path: Path) -> list[dict[str, Any]]:
    with folder_in_memory(tmp_path) as folder:
        command = [*SWEEP, what, fault, place, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    # A Ctrl-C that meets a finalizer is told by Python, which goes on: the command ends with 0.
    within_finalizer = fault == "INTERRUPT" and done.stderr.startswith("Exception ignored in")
    assert done.returncode == 0 and (within_finalizer or not done.stderr), done.stderr
    records: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(records) >= 10
    for record in records:
        assert record["state"] in ("none", "new"), record
        assert (record["again"], record["then"], record["left"]) == (0, "new", []), record
    return records


WHAT = ("file", "folder", "store")


@pytest.mark.parametrize("what", WHAT)
def test_killed_pull_leaves_nothing_or_all_of_it(what: str, place: str, tmp_path: Path) -> None:
    records = swept(what, "KILL", place, tmp_path)
    assert {record["code"] for record in records} <= {-9, 0}
    assert {record["state"] for record in records} == {"none", "new"}, "each was met"
    assert any(record["litter"] for record in records)


@pytest.mark.parametrize("what", WHAT)
def test_ctrl_c_leaves_nothing_or_all_of_it(what: str, place: str, tmp_path: Path) -> None:
    for record in swept(what, "INTERRUPT", place, tmp_path):
        assert record["code"] in (0, 130), record
        if what != "store":  # which keeps what is there of a blob, for the next pull
            assert record["litter"] == [], record


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("fault", ["FULL", "READ_ONLY"])
def test_unwritable_place_is_an_error(what: str, fault: str, place: str, tmp_path: Path) -> None:
    records = swept(what, fault, place, tmp_path)
    for record in records:
        assert (record["said"] != "") == (record["code"] != 0), record
        assert record["said"] in ("", "AOTC-E003", "AOTC-E560"), record
        if record["code"] == 0:
            assert record["state"] == "new", record
    assert sum(record["code"] != 0 for record in records) > 3


def test_killed_push_leaves_tag_and_can_be_repeated(server: OciServer, tmp_path: Path) -> None:
    place = f"oci://{server.address}/{REPO}:live"
    with there(place) as repository:
        push(open_streamed(GOLDEN / "digits.aotb"), repository, None, 0.0)
    old = server.manifests[REPO, "live"]
    before = dict(server.blobs), dict(server.manifests)
    victim, left = 0, 0

    def kill(handler: Handler) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(victim, signal.SIGKILL)
        return False

    server.faults.append(kill)
    command = [*SWEEP, "push", str(LAYERS), place]
    met = set()
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdin and driver.stdout

        def pushed(at: int) -> int:
            nonlocal victim, left
            assert driver.stdin and driver.stdout
            driver.stdin.write("\n")
            driver.stdin.flush()
            victim, left = int(driver.stdout.readline()), at
            os.kill(victim, signal.SIGCONT)
            return int(driver.stdout.readline())

        code, at = -signal.SIGKILL, 0
        while code == -signal.SIGKILL:
            at += 1
            server.blobs.clear()
            server.manifests.clear()
            server.blobs.update(before[0])
            server.manifests.update(before[1])
            code = pushed(at)
            found = server.manifests[REPO, "live"]
            met.add(found == old)
            if found != old:
                whole(server, found[0])
            assert code == 0 or pushed(0) == 0
            whole(server, server.manifests[REPO, "live"][0])
        driver.stdin.close()
    assert at > 10 and met == {True, False}


def whole(server: OciServer, index: bytes) -> None:
    """All that a bundle's index names is there."""
    for entry in json.loads(index)["manifests"]:
        manifest = json.loads(server.manifests[REPO, entry["digest"]][0])
        for each in (manifest["config"], *manifest["layers"]):
            assert (REPO, each["digest"]) in server.blobs
