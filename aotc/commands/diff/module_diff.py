"""In what the modules of two bundles differ, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aotc.bundle.read.module_differences import compared
from aotc.compile.mlir.module_texts import Form, texts


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
    lines, note = compared(old, new)
    kept = lines[:lines_max]
    return TextDiff(pair.places, pair.before, pair.after, tuple(kept), len(lines) - len(kept), note)
