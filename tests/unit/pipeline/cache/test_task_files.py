"""Files of a task go into the cache and come back into its folder, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.pipeline.cache.cache_keys import Kind, Task
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cache.cached_tasks import Tasks
from aotc.pipeline.cache.task_files import Files, keep, restore
from aotc_runtime.base.digest import sha256

DATA = b"what a process left"
TASK = Task(Kind.REFERENCE, "", {"modules of f": "1"})


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    return Tasks(LocalStore(tmp_path / "cache", 10_000), {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "a" / "scratch"
    made.mkdir(parents=True)
    return made


def test_files_come_back_for_the_same_key_alone(tasks: Tasks, folder: Path) -> None:
    for name in ("x.left", "y.left", "other"):
        (folder / name).write_bytes(DATA + name.encode())
    keep(TASK, folder, ("x.*", "*.left"), tasks)
    for path in folder.iterdir():
        path.unlink()
    assert not restore(Task(Kind.REFERENCE, "", {"modules of f": "2"}), folder, tasks)
    assert restore(TASK, folder, tasks)
    left = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert left == {name: DATA + name.encode() for name in ("x.left", "y.left")}


def test_without_a_cache_nothing_is_kept(folder: Path) -> None:
    (folder / "x.left").write_bytes(DATA)
    keep(TASK, folder, ("*.left",), Tasks(None, {}))
    assert not restore(TASK, folder, Tasks(None, {}))


@pytest.mark.parametrize("name", ["../x", "w/../../x", "w/x", "/{root}/x", "", ".", "..", "a\0b"])
def test_an_entry_that_names_a_file_elsewhere_is_not_used(
    name: str, tasks: Tasks, folder: Path, tmp_path: Path
) -> None:
    assert tasks.store is not None
    tasks.store.put(sha256(DATA), DATA)
    files = {"good": sha256(DATA), name.format(root=tmp_path): sha256(DATA)}
    tasks.keep(TASK.key, Files(files))
    assert not restore(TASK, folder, tasks)
    assert not [path for path in (tmp_path / "a").rglob("*") if path.is_file()]


def test_where_one_file_is_gone_none_of_the_others_is_left(tasks: Tasks, folder: Path) -> None:
    assert tasks.store is not None
    tasks.store.put(sha256(DATA), DATA)
    tasks.keep(TASK.key, Files({"x": sha256(DATA), "y": sha256(b"what is gone")}))
    assert not restore(TASK, folder, tasks)
    assert not [*folder.iterdir()]
