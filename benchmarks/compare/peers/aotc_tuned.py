"""Ours, with the compiler's options chosen by measurement at build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare.peers import aotc
from benchmarks.compare.peers.aotc import imports, leaves, version

__all__ = ["imports", "leaves", "load", "prepare", "version"]

NAME = "tuned"


def prepare(case: Path) -> Sequence[Path]:
    from aotc.workshops.tune.measure import Measure

    return aotc.prepare(case, NAME, Measure())


def load(case: Path) -> Callable[[Any], Any]:
    return aotc.load(case, NAME)
