"""Every value of a JSON document, where two differ, and where two modules do."""

from typing import Any

import pytest
from msgspec import UNSET

from aotc.bundle.read.differences import (
    LINES_MAX,
    PATH_MAX,
    compare_modules,
    differing,
    leaves,
    text_diff,
)


def test_the_leaves_of_a_document_come_in_its_order_with_their_paths() -> None:
    document = {"b": [1, {"c": None}], "a": {"x": "y", "empty": {}}, "list": []}
    assert list(leaves(document)) == [
        ("b[0]", 1),
        ("b[1].c", None),
        ("a.x", "y"),
        ("a.empty", {}),
        ("list", []),
    ]
    assert list(leaves("alone")) == [("", "alone")]


def test_leaves_are_found_at_any_depth_and_their_paths_stay_short() -> None:
    document: Any = "deep"
    for _ in range(10_000):
        document = {"name": document}
    ((path, value),) = leaves(document)
    assert (len(path), value) == (PATH_MAX, "deep")


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("a.c", 2, 3)]),
        ({"b": 1}, {"a": None}, [("a", UNSET, None), ("b", 1, UNSET)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a", [1, 2], [1, 3])]),
        ({"a": [{"b": 1}, {}]}, {"a": [{"b": 2}, {}]}, [("a[0].b", 1, 2)]),
        ({"a": ({"b": 1},)}, {"a": ({"b": 2},)}, [("a[0].b", 1, 2)]),
        ({"a": [{}]}, {"a": [{}, {}]}, [("a", [{}], [{}, {}])]),
        ({"a": {"b": 1}}, {"a": "b"}, [("a", {"b": 1}, "b")]),
        ({"a": [1]}, {"a": {"b": 1}}, [("a", [1], {"b": 1})]),
        ({"a": {"b": 1}}, {"a": [{}]}, [("a", {"b": 1}, [{}])]),
        ({"a": 1}, {"a": 1}, []),
    ],
)
def test_documents_differ_where_shapes_part(one: Any, two: Any, found: list[Any]) -> None:
    assert list(differing(one, two)) == found


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
    lines, reason = compare_modules("\n".join([*same, "old"]), "\n".join([*same, "new"]))
    assert (lines[-2:], reason) == (["-old", "+new"], "")
    lines, reason = compare_modules("\n".join([*same, "old"]), "\n".join([*same, "old", "new"]))
    assert lines == [] and f"modules of {LINES_MAX} and {LINES_MAX + 1} lines" in reason
