"""Tests of the text about the tasks of a build."""

import pytest

from aotc.pipeline.cached_tasks import Done, Kind, Task
from aotc.report.build_report import REASONS_MAX, print_tasks


def test_surplus_reasons_are_counted_single_calls_last(capsys: pytest.CaptureFixture[str]) -> None:
    calls = tuple(f"call f[n={number}] of fixture changed" for number in range(20))
    reasons = (*calls, "weights params changed")
    print_tasks([Done(Task(Kind.PARITY, "of native", {}), False, reasons, 1.0)], "nothing")
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[2:5] == ["run       parity of native", "weights params changed", calls[0]]
    assert lines[-1] == f"… {21 - REASONS_MAX} more; --json has all"
    assert len(lines) == 3 + REASONS_MAX + 1
