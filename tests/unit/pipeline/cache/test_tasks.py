"""A task runs once for each key; afterwards everybody can say why it ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.base.errors import CompileError
from aotc.pipeline.cache.cache_keys import Kind, Task
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cache.cached_tasks import ALWAYS, FIRST, GONE, OFF, UNKNOWN, End, Tasks, Undone
from aotc_runtime.base.errors import Finding

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
    last = {
        "capture": {"source file model.py": digests[0]},
        "executable f": {"module": digests[1]},
    }
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


def failing(*codes: str) -> CompileError:
    return CompileError(*(Finding(code, "", "", str(n), "") for n, code in enumerate(codes)))


def test_what_has_no_result_failed_or_was_stopped_or_was_never_begun() -> None:
    tasks = Tasks(None, {})
    names = ["f[n=8]", "f[n=16]", "f[n=32]"]
    tasks.expect([(Kind.PACK, ""), *((Kind.EXECUTABLE, name) for name in names), (Kind.PARITY, "")])
    with tasks.attempt(Kind.EXECUTABLE, "f[n=8]"):
        tasks.note(Task(Kind.EXECUTABLE, "f[n=8]", {}), cached=True)
    with pytest.raises(CompileError), tasks.attempt(Kind.EXECUTABLE, "f[n=16]"):
        raise failing("AOTC-E902", "AOTC-E901", "AOTC-E902")
    with pytest.raises(KeyboardInterrupt), tasks.attempt(Kind.PARITY, ""):
        raise KeyboardInterrupt
    assert tasks.undone() == (
        Undone(Kind.EXECUTABLE, "executable f[n=16]", End.FAILED, codes=("AOTC-E902", "AOTC-E901")),
        Undone(Kind.EXECUTABLE, "executable f[n=32]", End.NOT_BEGUN),
        Undone(Kind.PARITY, "parity", End.STOPPED),
        Undone(Kind.PACK, "pack", End.NOT_BEGUN),
    )


def test_what_is_killed_because_of_another_failure_has_not_failed_itself() -> None:
    tasks = Tasks(None, {})
    with pytest.raises(CompileError), tasks.attempt(Kind.EXECUTABLE, "second"):
        first = tasks.attempt(Kind.EXECUTABLE, "first")
        with pytest.raises(CompileError), tasks.ending(), first:
            raise failing("AOTC-E901")
        raise failing("AOTC-E902")
    assert {each.name: each.end for each in tasks.undone()} == {
        "executable first": End.FAILED,
        "executable second": End.STOPPED,
    }
