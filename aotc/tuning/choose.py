"""The choice among candidates: a pure function of what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aotc.tuning.candidates import DEFAULT

MARGIN = 0.03
"""What part of the default's time a choice has to save: less is noise, and not worth an option."""


TIE = 0.01
"""What is this close to the fastest is as fast: noise does not choose among equals."""


@dataclass(frozen=True, slots=True)
class Measured:
    """p50_us: median of a call, microseconds.  relative: to the default's, median over rounds."""

    p50_us: float
    relative: float


def summarize(rounds: Mapping[str, Sequence[float]]) -> dict[str, Measured]:
    """rounds: by candidate, the default among them, microseconds of a call in each round.

    Ratios are taken within a round, so that other work on the host, which slows a whole round,
    does not decide.
    """
    base = rounds[DEFAULT]
    return {
        name: Measured(
            p50_us=statistics.median(times),
            relative=statistics.median(
                time / default for time, default in zip(times, base, strict=True)
            ),
        )
        for name, times in rounds.items()
    }


def choose(measured: Mapping[str, Measured], margin: float = MARGIN) -> str:
    """The fastest candidate if it saves at least the margin, else the default.

    measured: in the order of preference, which decides among those that are as fast.
    """
    fastest = min(each.relative for each in measured.values())
    if fastest > 1 - margin:
        return DEFAULT
    return next(name for name, each in measured.items() if each.relative <= fastest * (1 + TIE))
