"""JSON documents: every value of one, and where two differ.

Paths are as in `entry_points.predict.inputs[0].shape`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

PATH_MAX = 200
"""Characters of a path: every leaf below a very long name would repeat that name."""


def leaves(document: Any) -> Iterator[tuple[str, Any]]:
    """The values of a document that hold no others, with their paths, cut to PATH_MAX characters.

    Not recursive, since a document from elsewhere may be of any depth.
    """
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        path, found = waiting.pop()
        children: list[tuple[str, Any]] = []
        if isinstance(found, dict):
            children = [(_short(_below(path, key)), child) for key, child in found.items()]
        elif isinstance(found, list):
            children = [(_short(f"{path}[{index}]"), child) for index, child in enumerate(found)]
        if children:
            waiting += reversed(children)
        else:
            yield path, found


def differing(one: Any, two: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The path and both values wherever two documents differ, descending as long as both have the
    same shape. UNSET stands for a missing value; lists of plain values are compared as a whole.
    """
    if one == two:
        return
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            yield from differing(one.get(key, UNSET), two.get(key, UNSET), _below(path, key))
    elif _are_lists_of_others(one, two) and len(one) == len(two):
        for index, (a, b) in enumerate(zip(one, two, strict=True)):
            yield from differing(a, b, f"{path}[{index}]")
    else:
        yield path, one, two


def _are_lists_of_others(*values: Any) -> bool:
    return all(
        isinstance(value, list | tuple) and any(isinstance(item, dict | list) for item in value)
        for value in values
    )


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _short(path: str) -> str:
    return path if len(path) <= PATH_MAX else path[: PATH_MAX - 1] + "…"
