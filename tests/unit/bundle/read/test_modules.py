"""Modules as text, compared without the numbering of their values."""

from __future__ import annotations

from aotc.bundle.read.module_differences import LINES_MAX, compared, text_diff


def test_names_of_values_count_only_where_nothing_else_differs() -> None:
    old = ["%0 = a", "%1 = sub %0, %2", "return %1"]
    assert list(text_diff(old, ["%0 = a", "%1 = sub %2, %0", "return %1"]))[1:] == [
        " %0 = a",
        "-%1 = sub %0, %2",
        "+%1 = sub %2, %0",
        " return %1",
    ]
    assert list(text_diff(old, ["%9 = b", *old]))[1:] == ["+%9 = b", " %0 = a", " %1 = sub %0, %2"]


def test_the_longest_modules_that_are_compared_and_those_that_are_a_line_longer() -> None:
    same = [f"line {number}" for number in range(LINES_MAX - 1)]
    lines, reason = compared("\n".join([*same, "old"]), "\n".join([*same, "new"]))
    assert (lines[-2:], reason) == (["-old", "+new"], "")
    lines, reason = compared("\n".join([*same, "old"]), "\n".join([*same, "old", "new"]))
    assert lines == [] and f"modules of {LINES_MAX} and {LINES_MAX + 1} lines" in reason
