"""Modules as text, compared without the numbering of their values."""

from __future__ import annotations

from aotc.review.modules import text_diff


def test_names_of_values_count_only_where_nothing_else_differs() -> None:
    old = ["%0 = a", "%1 = sub %0, %2", "return %1"]
    assert list(text_diff(old, ["%0 = a", "%1 = sub %2, %0", "return %1"]))[1:] == [
        " %0 = a",
        "-%1 = sub %0, %2",
        "+%1 = sub %2, %0",
        " return %1",
    ]
    assert list(text_diff(old, ["%9 = b", *old]))[1:] == ["+%9 = b", " %0 = a", " %1 = sub %0, %2"]
