"""Every value of a JSON document, and where two differ."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from aotc.bundle.read.json_differences import PATH_MAX, differing, leaves


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
def test_two_documents_differ_as_deep_as_they_have_the_same_shape(
    one: Any, two: Any, found: list[Any]
) -> None:
    assert list(differing(one, two)) == found
