"""Compiling beside the calls: in a thread, kept within bounds, failures remembered."""

import threading
import time
from typing import Any

import pytest

from aotc_runtime.base.errors import BackendError, Finding
from aotc_runtime.serving.routing.background_compiler import FAILURES_MAX, BackgroundCompiler

Key = tuple[tuple[str, int], ...]


def key(size: int) -> Key:
    return (("batch", size),)


def compiler(compile_: Any, most: int = 2, seconds: float = 60) -> BackgroundCompiler:
    return BackgroundCompiler("f", "sha256:0", compile_, most, seconds)


def settle(found: BackgroundCompiler) -> dict[str, Any]:
    """The report once nothing waits."""
    for _ in range(2000):
        report = found.report()
        if not report["waiting"]:
            return report
        time.sleep(0.001)
    raise AssertionError("it still compiles")


def test_a_request_is_refused_at_once_and_compiled_in_another_thread() -> None:
    threads, go = [], threading.Event()

    def compile_(sizes: dict[str, int]) -> Any:
        go.wait()
        threads.append(threading.current_thread())
        return sizes

    found = compiler(compile_)
    error = found.request(key(3))
    assert (error.code, error.findings[0].found) == ("AOTC-E614", "compilation running")
    assert found.request(key(3)).code == "AOTC-E614" and found.find(key(3)) is None
    go.set()
    report = settle(found)
    served: Any = found.find(key(3))
    assert served == {"batch": 3} and report["compiled"] == 1, "asked for twice, compiled once"
    assert threads[0] is not threading.current_thread()


def test_the_least_recently_used_is_given_back() -> None:
    found = compiler(lambda sizes: sizes)
    for size in (1, 2):
        found.request(key(size))
        settle(found)
    found.find(key(1))
    found.request(key(3))
    report = settle(found)
    assert [each["sizes"]["batch"] for each in report["ready"]] == [1, 3]
    assert report["evicted"] == 1 and found.find(key(2)) is None


def test_no_more_wait_than_are_kept() -> None:
    go = threading.Event()
    found = compiler(lambda sizes: go.wait() and sizes)
    for size in (1, 2):
        assert found.request(key(size)).findings[0].found == "compilation running"
    assert found.request(key(3)).findings[0].found == "compilation queued"
    assert len(found.report()["waiting"]) == 2
    go.set()
    settle(found)


@pytest.mark.parametrize("kind", ["backend", "memory"])
def test_a_failure_is_remembered_and_told_with_its_reason(kind: str) -> None:
    calls = []

    def compile_(sizes: dict[str, int]) -> Any:
        calls.append(sizes)
        if kind == "memory":
            raise MemoryError
        raise BackendError(Finding("AOTC-E756", "f", "an executable", "out of registers", "none"))

    found = compiler(compile_)
    found.request(key(3))
    report = settle(found)
    reason = "out of memory" if kind == "memory" else "out of registers"
    assert report["failed"] == [{"sizes": {"batch": 3}, "reason": reason}]
    for _ in range(3):
        error = found.request(key(3))
        assert (error.code, error.findings[0].found) == ("AOTC-E615", reason)
    assert len(calls) == 1


def test_failures_are_remembered_within_bounds() -> None:
    def compile_(sizes: dict[str, int]) -> Any:
        raise MemoryError

    found = compiler(compile_, most=10**6)
    for size in range(FAILURES_MAX + 5):
        found.request(key(size))
    assert len(settle(found)["failed"]) == FAILURES_MAX


def test_what_takes_too_long_is_given_up_and_its_result_thrown_away() -> None:
    go = threading.Event()
    found = compiler(lambda sizes: go.wait() and sizes, seconds=0.01)
    found.request(key(3))
    report = settle(found)
    assert report["given_up"] == 1 and found.request(key(3)).code == "AOTC-E615"
    go.set()
    found.request(key(4))
    settle(found)
    assert found.find(key(3)) is None


def test_asking_again_gives_a_compilation_no_more_time_and_no_second_thread() -> None:
    go = threading.Event()
    found = compiler(lambda sizes: go.wait() and sizes, seconds=0.05)
    found.request(key(3))
    while found._waiting.get(key(3)) is None:
        time.sleep(0.001)
    found.request(key(3))
    found.request(key(4))
    working = [thread for thread in threading.enumerate() if thread.name == "aotc-compile"]
    time.sleep(0.06)
    assert found.report()["given_up"] == 1 and len(working) == 1
    go.set()
    settle(found)


def test_nothing_is_compiled_after_it_was_closed() -> None:
    calls: list[dict[str, int]] = []
    found = compiler(calls.append)
    found.close()
    assert found.request(key(3)).code == "AOTC-E614"
    time.sleep(0.01)
    assert calls == [] and found.find(key(3)) is None
