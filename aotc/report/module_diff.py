"""Modules as text, line by line, without their numbering.

One operation more renumbers all values after it. So lines are compared with every value's name left
out, and shown as they are; only where nothing differs so, the names are compared too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from aotc.backends.xla.texts import Form, texts

LINES_MAX = 20_000
"""Of a module that is compared line by line, which takes seconds beyond."""

CONTEXT = 2
"""Lines around a change."""

_VALUE = re.compile(r"%[\w#:]+")


@dataclass(frozen=True, slots=True)
class ModulePair:
    """Two modules of the same executables. before, after: digests of the artifacts."""

    places: tuple[str, ...]
    before: str
    after: str
    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True)
class TextDiff:
    """Lines that begin with "-", "+", " " or "@@". left_out: how many more there are.  note: why
    there are none, although the modules differ.
    """

    places: tuple[str, ...]
    before: str
    after: str
    lines: tuple[str, ...]
    left_out: int
    note: str = ""


def compare_texts(pairs: Sequence[ModulePair], lines_max: int) -> list[TextDiff]:
    """The diff of every pair, of at most so many lines.

    Raises UsageError (AOTC-E057) for a module that this jaxlib cannot read.
    """
    artifacts = {pair.before: pair.old for pair in pairs} | {pair.after: pair.new for pair in pairs}
    forms = [(Form.STABLEHLO, artifact) for artifact in artifacts.values()]
    text = dict(zip(artifacts, texts(forms, "modules of both bundles"), strict=True))
    return [_compared(pair, text[pair.before], text[pair.after], lines_max) for pair in pairs]


def _compared(pair: ModulePair, old: str, new: str, lines_max: int) -> TextDiff:
    before, after = old.splitlines(), new.splitlines()
    lines: list[str] = []
    note = ""
    if max(len(before), len(after)) > LINES_MAX:
        note = f"modules of {len(before)} and {len(after)} lines are not compared line by line"
    else:
        lines = list(text_diff(before, after))
        if not lines:
            note = "they differ in constants of many numbers, or in how they are encoded"
    kept = lines[:lines_max]
    return TextDiff(pair.places, pair.before, pair.after, tuple(kept), len(lines) - len(kept), note)


def text_diff(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """As `diff -u` has it, without names of values where that tells anything."""
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
