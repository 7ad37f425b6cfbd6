"""What people read of the tasks of a build."""

from __future__ import annotations

import pytest

from aotc.pipeline.cached_tasks import Done, End, Kind, Task, Undone
from aotc.pipeline.task_history import Unfinished
from aotc.report.build_report import (
    FAILED_MAX,
    REASONS_MAX,
    print_tasks,
    unfinished_lines,
    unfinished_report,
)


def test_reasons_beyond_a_few_are_counted_and_single_calls_come_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = tuple(f"call f[n={number}] of fixture changed" for number in range(20))
    reasons = (*calls, "weights params changed")
    print_tasks([Done(Task(Kind.PARITY, "of native", {}), False, reasons, 1.0)], "nothing")
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[2:5] == ["run       parity of native", "weights params changed", calls[0]]
    assert lines[-1] == f"… {21 - REASONS_MAX} more; --json has all"
    assert len(lines) == 3 + REASONS_MAX + 1


CAPTURED = Done(Task(Kind.CAPTURE, "", {}), True, (), 0.0)
COMPILED = Done(Task(Kind.EXECUTABLE, "f", {}), False, ("module changed",), 2.0)
STOPPED = Undone(Kind.EXECUTABLE, "executable g", End.STOPPED)
PACK = Undone(Kind.PACK, "pack", End.NOT_BEGUN)


def failed(count: int) -> tuple[Undone, ...]:
    return tuple(
        Undone(Kind.EXECUTABLE, f"executable {n}", End.FAILED, ("AOTC-E901", "AOTC-E902"))
        for n in range(count)
    )


def test_of_a_failed_build_a_few_lines_say_what_failed_and_count_the_rest() -> None:
    unfinished = Unfinished((CAPTURED, COMPILED), (*failed(10), STOPPED, PACK), "nothing")
    first, *others = unfinished_lines(unfinished, explain=False)
    assert first == "tasks       10 failed, 1 run, 1 cached, 1 stopped, 1 not begun"
    assert others[0] == "  failed    executable 0: AOTC-E901, AOTC-E902"
    assert len(others) == FAILED_MAX + 1
    assert others[-1] == f"  … {10 - FAILED_MAX} more; --explain has all"


def test_a_failed_build_is_explained_task_by_task() -> None:
    unfinished = Unfinished((CAPTURED, COMPILED), (*failed(10), STOPPED, PACK), "the last build")
    lines = list(unfinished_lines(unfinished, explain=True))
    assert lines[1:5] == [
        "compared    with the last build",
        "  cached    capture",
        "  run       executable f",
        "            module changed",
    ]
    assert lines[5:15] == [f"  failed    executable {n}: AOTC-E901, AOTC-E902" for n in range(10)]
    assert lines[15:] == ["  stopped   executable g", "  not begun pack"]


def test_tasks_without_a_result_have_no_key_and_codes_if_they_failed() -> None:
    unfinished = Unfinished((CAPTURED,), (*failed(1), PACK), "nothing")
    tasks = unfinished_report(unfinished)["tasks"]
    assert [(t["task"], t["status"], t["codes"]) for t in tasks] == [
        ("capture", "cached", []),
        ("executable 0", "failed", ["AOTC-E901", "AOTC-E902"]),
        ("pack", "not begun", []),
    ]
    assert tasks[0]["key"] and tasks[1]["key"] is None
    assert len({tuple(task) for task in tasks}) == 1


def test_where_nothing_was_begun_there_is_nothing_to_tell() -> None:
    assert list(unfinished_lines(Unfinished((), (PACK,), "nothing"), explain=True)) == []
