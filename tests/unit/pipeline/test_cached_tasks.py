"""A task runs once for each key; afterwards everybody can say why it ran."""

from pathlib import Path

import pytest

from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import (
    ALWAYS,
    FIRST,
    GONE,
    OFF,
    UNKNOWN,
    Kind,
    Task,
    Tasks,
    changes,
    keep_files,
    restore_files,
)
from aotc_runtime.base.digest import sha256

A, B = sha256(b"a"), sha256(b"b")


def key(kind: Kind = Kind.EXECUTABLE, of: str = "f", **parts: str) -> str:
    return Task(kind, of, parts).key


def test_a_key_accounts_for_the_kind_and_for_each_name_and_value() -> None:
    different = [key(), key(a="1"), key(a="2"), key(b="1"), key(a="1", b="1"), key(Kind.PARITY)]
    assert len(set(different)) == len(different)


def test_a_key_does_not_account_for_order_or_for_what_people_call_the_task() -> None:
    assert Task(Kind.PACK, "x", {"a": "1", "b": "2"}).key == key(Kind.PACK, b="2", a="1")


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({"jaxlib": "0.12.0"}, {"jaxlib": "0.12.0.1"}, "jaxlib 0.12.0 -> 0.12.0.1"),
        ({"module": A}, {"module": B}, "module changed"),
        ({}, {"compile option x": "1"}, "compile option x added: 1"),
        (
            {"package x": "1", "files of package x": A},
            {"package x": "2", "files of package x": B},
            "package x 1 -> 2",
        ),
        ({"files of package x": A}, {"files of package x": B}, "files of package x changed"),
        ({"source file a.py": A}, {}, "source file a.py is no longer read"),
        ({}, {"file a.txt": A}, "file a.txt is now read"),
        ({"file of package x a.py": A}, {}, "file of package x a.py removed"),
    ],
)
def test_change_names_both_values(before: dict[str, str], now: dict[str, str], text: str) -> None:
    assert [str(change) for change in changes(before, now)] == [text]
    assert not list(changes(now, now))


OLD = Task(Kind.EXECUTABLE, "f", {"module": "1"})
NEW = Task(Kind.EXECUTABLE, "f", {"module": "2"})


def never() -> int:
    raise AssertionError("it was run")


def test_a_result_is_made_once_and_then_taken(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, 10_000)
    assert Tasks(store, {}).run(OLD, int, lambda: 5) == 5
    later = Tasks(store, {})
    assert later.run(OLD, int, never) == 5
    (done,) = later.done()
    assert (done.cached, done.reasons) == (True, ())


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, 10_000)
    with pytest.raises(AssertionError):
        Tasks(store, {}).run(OLD, int, never)
    assert Tasks(store, {}).run(OLD, int, lambda: 6) == 6


def test_a_result_of_another_type_is_made_anew(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, 10_000)
    Tasks(store, {}).run(OLD, str, lambda: "text")
    assert Tasks(store, {}).run(OLD, int, lambda: 7) == 7


def test_the_reason_is_what_changed_since_the_last_build(tmp_path: Path) -> None:
    def reasons(last: dict[str, dict[str, str]], *, cached: bool = True) -> tuple[str, ...]:
        tasks = Tasks(LocalStore(tmp_path / str(len(last)), 10_000) if cached else None, last)
        tasks.run(NEW, int, lambda: 1)
        return tasks.done()[0].reasons

    assert reasons({}) == (FIRST,)
    assert reasons({}, cached=False) == (OFF,)
    assert reasons({"executable f": {"module": "1"}}) == ("module 1 -> 2",)
    assert reasons({"executable f": {"module": "2"}, "": {}}) == (GONE,)
    assert reasons({each: {} for each in ("executable g", "", " ")}) == (UNKNOWN,)


def test_a_capture_says_what_changed_or_that_every_build_does_it() -> None:
    for last, reason in (({}, ALWAYS), ({"a": "1"}, ALWAYS), ({"a": "2"}, "a 2 -> 1")):
        tasks = Tasks(None, {"capture": last})
        tasks.note(Task(Kind.CAPTURE, "", {"a": "1"}), cached=False)
        assert tasks.done()[0].reasons == (reason,)


def test_a_changed_module_is_traced_back_to_what_changed_in_the_program() -> None:
    digests = [f"sha256:{number:064}" for number in range(4)]
    last = {"capture": {"source file model.py": digests[0]}, "executable f": {"module": digests[1]}}
    tasks = Tasks(LocalStore(Path("nowhere"), 0), last)
    tasks.note(Task(Kind.EXECUTABLE, "f", {"module": digests[2]}), cached=False)
    tasks.note(Task(Kind.CAPTURE, "", {"source file model.py": digests[3]}), cached=False)
    capture, executable = tasks.done()
    assert capture.reasons == ("source file model.py changed",)
    assert executable.reasons == ("module changed: source file model.py changed",)


def test_tasks_are_in_the_order_of_their_numbers() -> None:
    tasks = Tasks(None, {})
    for size in (1, 16, 8):
        tasks.note(Task(Kind.EXECUTABLE, f"f[batch={size}] for native", {}), cached=False)
    assert [done.task.of.partition("]")[0] for done in tasks.done()] == [
        "f[batch=1",
        "f[batch=8",
        "f[batch=16",
    ]


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
    keep_files(TASK, folder, ("x.*", "*.left"), tasks)
    for path in folder.iterdir():
        path.unlink()
    assert not restore_files(Task(Kind.REFERENCE, "", {"modules of f": "2"}), folder, tasks)
    assert restore_files(TASK, folder, tasks)
    left = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert left == {name: DATA + name.encode() for name in ("x.left", "y.left")}


def test_without_a_cache_nothing_is_kept(folder: Path) -> None:
    (folder / "x.left").write_bytes(DATA)
    keep_files(TASK, folder, ("*.left",), Tasks(None, {}))
    assert not restore_files(TASK, folder, Tasks(None, {}))


@pytest.mark.parametrize("name", ["../x", "w/../../x", "w/x", "/{root}/x", "", ".", "..", "a\0b"])
def test_entry_with_path_is_unused(name: str, tasks: Tasks, folder: Path, tmp_path: Path) -> None:
    assert tasks.store is not None
    tasks.store.put(sha256(DATA), DATA)
    files = {"good": sha256(DATA), name.format(root=tmp_path): sha256(DATA)}
    tasks.keep(TASK.key, files)
    assert not restore_files(TASK, folder, tasks)
    assert not [path for path in (tmp_path / "a").rglob("*") if path.is_file()]


def test_where_one_file_is_gone_none_of_the_others_is_left(tasks: Tasks, folder: Path) -> None:
    assert tasks.store is not None
    tasks.store.put(sha256(DATA), DATA)
    tasks.keep(TASK.key, {"x": sha256(DATA), "y": sha256(b"what is gone")})
    assert not restore_files(TASK, folder, tasks)
    assert not [*folder.iterdir()]
