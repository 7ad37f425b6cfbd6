"""What an entry of the cache says was left by a task goes into the folder of the task."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.pipeline.cache.cache_keys import Kind, Task, key_of
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cache.cached_tasks import Done, Tasks
from aotc.pipeline.watching import remembered_tasks
from aotc.pipeline.watching.recorded_reads import Looking, Reads
from aotc.pipeline.watching.recording_file import Recording
from aotc.pipeline.watching.remembered_tasks import Files, Recipes, Worker
from aotc_runtime.base.digest import sha256
from tests.hostile.weakening import Check, remove

DATA = b"what a program left"
KNOWN = {"host": "this one"}


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    folder = tmp_path / "a" / "scratch"
    folder.mkdir(parents=True)
    return Worker(Kind.CAPTURE, "worker", tmp_path, folder, KNOWN, ("*.left",), {})


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    return Tasks(LocalStore(tmp_path / "cache", 10_000), {})


def run(worker: Worker, tasks: Tasks, named: str, digest: str = sha256(DATA)) -> bool:
    """Whether the program had to be run, though an entry says that it left a file of this name."""
    reads, ran = Reads(), []
    key = key_of(Kind.CAPTURE, {**KNOWN, **Looking(worker.root, {}).parts(reads)})
    assert tasks.store is not None
    tasks.store.put(sha256(DATA), DATA)
    tasks.keep(key_of("capture reads", KNOWN), Recipes((reads,)))
    tasks.keep(key, Files({named: digest}))

    def execute() -> None:
        ran.append(1)
        Recording(reads, {}).write(worker.folder, worker.module)

    remembered_tasks.run(worker, tasks, execute)
    return bool(ran)


@pytest.mark.parametrize("name", ["x.left", "weights.w/000000.left"])
def test_a_file_that_is_in_the_cache_is_left_again(worker: Worker, tasks: Tasks, name: str) -> None:
    assert not run(worker, tasks, name)
    assert (worker.folder / name).read_bytes() == DATA


def test_a_file_that_the_cache_lacks_is_made_anew(worker: Worker, tasks: Tasks) -> None:
    assert run(worker, tasks, "x.left", sha256(b"what the cache has forgotten"))
    assert not (worker.folder / "x.left").exists()


def test_without_a_cache_nothing_is_kept_and_nobody_minds(worker: Worker) -> None:
    def execute() -> None:
        (worker.folder / "x.left").write_bytes(DATA)
        Recording(Reads(), {}).write(worker.folder, worker.module)

    tasks = Tasks(None, {})
    remembered_tasks.run(worker, tasks, execute)()
    assert tasks.store is None and (worker.folder / "x.left").read_bytes() == DATA


@pytest.mark.parametrize("name", ["../x", "w/../../x", "/{root}/x", "", ".", "..", "a\0b"])
def test_an_entry_that_names_a_file_elsewhere_is_not_used(
    worker: Worker, tasks: Tasks, name: str, tmp_path: Path
) -> None:
    before = sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts)
    assert run(worker, tasks, name.format(root=tmp_path))
    left = {path for path in tmp_path.rglob("*") if path.is_file() and "cache" not in path.parts}
    assert left == {worker.folder / "worker.reads"} and not any(map(Path.is_file, before))


def test_without_its_check_it_is_written_there(
    worker: Worker, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = ("if not _lies_within(name)", "if False")
    remove(Check(remembered_tasks._restore, check, lambda arms: None, ""), monkeypatch)
    assert not run(worker, tasks, "../x")
    assert (worker.folder.parent / "x").read_bytes() == DATA


def test_reasons_that_the_author_can_mend_come_first() -> None:
    told = ["it loaded safetensors", "it read /dev/x", "it started a process"]
    mine = ["weights w have other values each time", "it asked chance: random in program.py"]
    done = [
        Done(
            Task(kind, "", {}),
            False,
            tuple(f"its result is never kept: {why}" for why in reasons),
            1,
        )
        for kind, reasons in ((Kind.CAPTURE, told), (Kind.REFERENCE, [*told, *mine]))
    ]
    (note,) = remembered_tasks.unkept(done)
    shown = note.partition("each time: ")[2].split("; ")
    assert shown == [*mine, told[0], "2 more reasons by --explain"]


def test_nothing_is_noted_of_programs_that_may_be_kept() -> None:
    assert remembered_tasks.unkept(()) == ()


def test_where_one_file_is_gone_none_of_the_others_is_left(worker: Worker, tasks: Tasks) -> None:
    """The program makes all of them anew, in a folder that has none."""
    assert tasks.store is not None
    tasks.store.put(sha256(DATA), DATA)
    names = ["x.left", "weights.w/000000.left", "weights.w/000001.left"]
    every = dict.fromkeys(names, sha256(DATA)) | {names[-1]: sha256(b"what is gone")}
    assert not remembered_tasks._restore(Files(every), worker.folder, tasks)
    assert not list(worker.folder.iterdir())
