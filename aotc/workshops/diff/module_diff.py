"""In what the modules of two bundles differ, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aotc.backends.xla.texts import Form, texts
from aotc.review.modules import text_diff

LINES_MAX = 20_000
"""The longest module that is compared line by line; a longer one takes seconds."""


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
