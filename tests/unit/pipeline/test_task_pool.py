"""A limited number of tasks at a time, the urgent ones first; stopped, none begins any more."""

import threading
import time
from concurrent.futures import CancelledError

import pytest

from aotc.base.errors import CompileError, ParityError
from aotc.pipeline.task_pool import Failures, Workers
from aotc_runtime.base.errors import Finding
from tests.refusals import error_of
from tests.waiting import interrupted_start


def test_no_more_than_so_many_run_at_once() -> None:
    running, most, lock = 0, 0, threading.Lock()
    meeting = threading.Barrier(2)

    def task() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        meeting.wait(timeout=60)
        with lock:
            running -= 1

    with Workers(2) as workers:
        for future in [workers.submit(task) for _ in range(4)]:
            future.result()
    assert most == 2


def test_urgent_tasks_come_before_others_that_wait() -> None:
    order: list[str] = []
    gate = threading.Event()
    with Workers(1) as workers:
        first = workers.submit(gate.wait)
        for name in ("a", "b"):
            workers.submit(lambda name=name: order.append(name))  # type: ignore[misc]
        workers.submit(lambda: order.append("urgent"), urgent=True)
        gate.set()
        first.result()
    assert order == ["urgent", "a", "b"]


def test_stopped_by_an_exception_what_waits_is_never_begun() -> None:
    begun: list[int] = []
    gate = threading.Event()

    class Other:
        def stop(self) -> None:
            gate.set()

    with pytest.raises(KeyboardInterrupt), Workers(1) as workers:
        workers.also_stop([Other()])
        workers.submit(gate.wait)
        waiting = workers.submit(lambda: begun.append(1))
        raise KeyboardInterrupt
    assert begun == []
    error_of(CancelledError, waiting.result)


def test_a_signal_while_a_thread_starts_leaves_nothing_running() -> None:
    ended: list[int] = []
    with interrupted_start() as interrupted:

        def task() -> None:
            interrupted.wait(20)
            time.sleep(0.1)
            ended.append(1)

        with pytest.raises(KeyboardInterrupt), Workers(1) as workers:
            workers.submit(task)
        assert ended == [1]


def failing(code: str, where: str) -> None:
    family = CompileError if code.startswith("AOTC-E90") else ParityError
    raise family(Finding(code, where, "x", "y", "z"))


def test_the_first_failure_is_raised_while_others_still_run() -> None:
    gate = threading.Event()
    failures = Failures(keep_going=False)
    with Workers(2) as workers:
        futures = {
            "slow": workers.submit(gate.wait),
            "failed": workers.submit(lambda: failing("AOTC-E901", "f")),
        }
        error_of(CompileError, failures.results, futures)
        gate.set()


def test_failures_are_collected_and_the_rest_goes_on() -> None:
    failures = Failures(keep_going=True)
    with Workers(2) as workers:
        found = failures.results(
            {
                1: workers.submit(lambda: 1),
                2: workers.submit(lambda: failing("AOTC-E901", "f")),
                3: workers.submit(lambda: failing("AOTC-E902", "g")),
                4: workers.submit(lambda: 4),
            }
        )
    assert found == {1: 1, 4: 4}
    failures.add([Finding("AOTC-E973", "h", "x", "y", "z")])
    caught = error_of(CompileError, failures.raise_collected)
    assert [finding.where for finding in caught.findings] == ["f", "g", "h"]


def test_a_bug_is_raised_also_when_failures_are_collected() -> None:
    with Workers(1) as workers, pytest.raises(ZeroDivisionError):
        Failures(keep_going=True).results({1: workers.submit(lambda: 1 // 0)})
