"""The choice among candidates, and among engines: pure functions of what was measured."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aotc.compile.compiler_protocol import DEFAULT

MARGIN = 0.03
"""What part of the default's time a choice has to save: less is noise, and not worth an option."""

WINS = 0.75
"""In what part of the rounds a choice has to be faster than the default: on a busy host, medians of
a few rounds differ by more than the margin for nothing."""

TIE = 0.01
"""What is this close to the fastest is as fast: noise does not choose among equals."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of a variant.

    `p50_us` is the median of a call, in microseconds; `relative` is the ratio to the default's,
    median over rounds; `wins` counts the rounds in which it was faster than the default.
    """

    p50_us: float
    relative: float
    wins: int
    rounds: int


def summarize(rounds: Mapping[str, Sequence[float]], base: str = DEFAULT) -> dict[str, Measured]:
    """Return the figures of each variant; `rounds` has microseconds of a call by variant and round.

    Ratios to `base`, the default, are within a round, since other work slows a whole round.
    """
    ratios = {
        name: [time / default for time, default in zip(times, rounds[base], strict=True)]
        for name, times in rounds.items()
    }
    return {
        name: Measured(
            p50_us=statistics.median(times),
            relative=statistics.median(ratios[name]),
            wins=sum(ratio < 1 for ratio in ratios[name]),
            rounds=len(times),
        )
        for name, times in rounds.items()
    }


def choose(measured: Mapping[str, Measured], base: str = DEFAULT, margin: float = MARGIN) -> str:
    """Return the fastest variant that saves the margin, and does so in most rounds.

    Without one it is `base`, the default. `measured` is in order of preference, which decides
    between equals.
    """
    better = {
        name: each.relative
        for name, each in measured.items()
        if each.relative <= 1 - margin and each.wins >= WINS * each.rounds
    }
    if not better:
        return base
    fastest = min(better.values())
    return next(name for name, relative in better.items() if relative <= fastest * (1 + TIE))


def best_of(names: Sequence[str], rounds: Mapping[str, Sequence[float]]) -> str:
    """Return the best of one engine's variants; the default, if that was not measured.

    `names` are in order of preference, the default first; `rounds` has microseconds by round.
    """
    base = names[0]
    if base not in rounds:
        return base
    return choose(summarize({each: rounds[each] for each in names if each in rounds}, base), base)


def together(every: Sequence[Sequence[float]]) -> list[float]:
    """Return the geometric mean over executables of each round, so that all count alike.

    every: microseconds of a call by executable and round; of a slow one there are fewer rounds.
    """
    return [math.exp(statistics.mean(map(math.log, times))) for times in zip(*every, strict=False)]
