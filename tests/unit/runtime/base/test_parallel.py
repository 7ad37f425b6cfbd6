"""A function of each of several things, on several threads."""

from __future__ import annotations

import threading

import pytest

from aotc_runtime.base.parallel_calls import map_on_threads


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 50])
def test_results_come_in_the_order_of_the_things(threads: int) -> None:
    assert map_on_threads(str, range(20), threads) == [str(number) for number in range(20)]
    assert map_on_threads(str, [], threads) == []


def test_as_many_run_at_once_as_there_are_threads() -> None:
    together = threading.Barrier(3)
    names = map_on_threads(
        lambda _: together.wait(60) >= 0 and threading.current_thread(), range(3), 3
    )
    assert len(set(names)) == 3 and threading.current_thread() in names


def test_the_error_of_the_first_thing_is_raised_and_nothing_more_begins() -> None:
    begun: list[int] = []
    together = threading.Barrier(2)

    def fail(number: int) -> None:
        begun.append(number)
        together.wait(60)
        raise ValueError(str(number))

    with pytest.raises(ValueError, match="0"):
        map_on_threads(fail, range(10), 2)
    assert sorted(begun) == [0, 1]


def test_no_thread_is_left_behind() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError):
        map_on_threads(lambda number: 1 // (number - 5), range(10), 4)
    # Of other tests' threads, some may have ended meanwhile.
    assert set(threading.enumerate()) <= before


def test_a_process_that_may_have_no_more_threads_uses_the_one_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert map_on_threads(str, range(3), 3) == ["0", "1", "2"]
