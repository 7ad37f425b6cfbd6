"""Compares modules as text, line by line, ignoring how their values are numbered.

One additional operation renumbers all values after it. So lines are compared without the names of
values, and shown with them; the names are compared only where nothing else differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

LINES_MAX = 20_000
"""The longest module that is compared line by line; a longer one takes seconds."""

CONTEXT = 2
"""Lines around a change."""

_VALUE = re.compile(r"%[\w#:]+")


def compared(before: str, after: str) -> tuple[list[str], str]:
    """The difference of two modules that are not the same, in lines; or why there are none."""
    one, two = before.splitlines(), after.splitlines()
    if max(len(one), len(two)) > LINES_MAX:
        return [], f"modules of {len(one)} and {len(two)} lines are not compared line by line"
    lines = list(text_diff(one, two))
    if not lines:
        return [], "they differ in constants of many numbers, or in how they are encoded"
    return lines, ""


def text_diff(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The difference in the format of `diff -u`."""
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
