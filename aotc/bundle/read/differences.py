"""Differences of JSON documents, value by value, and of modules as text, line by line.

Paths are as in `entry_points.predict.inputs[0].shape`. One additional operation renumbers all
values after it. So lines of modules are compared without the names of values, and shown with them;
the names are compared only where nothing else differs.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from msgspec import UNSET

PATH_MAX = 200
"""Characters of a path: every leaf below a very long name would repeat that name."""


def leaves(document: Any) -> Iterator[tuple[str, Any]]:
    """Return the leaf values of a document by paths of at most PATH_MAX characters.

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
    """Yield the path and both values wherever two documents differ.

    It descends while both have the same shape. UNSET stands for a missing value; lists of plain
    values are compared as a whole.
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


LINES_MAX = 20_000
"""The longest module that is compared line by line; a longer one takes seconds."""

CONTEXT = 2
"""Lines around a change."""

_VALUE = re.compile(r"%[\w#:]+")


def compare_modules(before: str, after: str) -> tuple[list[str], str]:
    """Return the difference of two modules in lines, or why it has none."""
    one, two = before.splitlines(), after.splitlines()
    if max(len(one), len(two)) > LINES_MAX:
        return [], f"modules of {len(one)} and {len(two)} lines are not compared line by line"
    lines = list(text_diff(one, two))
    if not lines:
        return [], "they differ in constants of many numbers, or in how they are encoded"
    return lines, ""


def text_diff(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield the difference in the format of `diff -u`."""
    plain = [_VALUE.sub("%", line) for line in before], [_VALUE.sub("%", line) for line in after]
    by = plain if plain[0] != plain[1] else (list(before), list(after))
    matcher = SequenceMatcher(None, *by, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        first, last = group[0], group[-1]
        yield f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in after[new_start:new_end])
                continue
            yield from (f"-{line}" for line in before[old_start:old_end])
            yield from (f"+{line}" for line in after[new_start:new_end])
