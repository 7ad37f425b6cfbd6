"""The evidence in a bundle about each candidate, and each engine."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aotc.base.evidence import EngineChoice, Figure, LeftOutEngine, MeasuredEngine, SizeFigure
from aotc.commands.tune.tuning_choice import MARGIN, Measured, choose, summarize
from aotc.pipeline.build_options import Objective
from aotc_runtime.schema.bundle_manifest import LeftOutCandidate, MeasuredCandidate, TuningCandidate


def evidence(
    names: Sequence[str], measured: Mapping[str, Measured], reasons: Mapping[str, str]
) -> Iterator[TuningCandidate]:
    """Yield figures, or why there are none, in the order of the names."""
    for name in names:
        if name in measured:
            yield MeasuredCandidate(
                name=name,
                p50_us=f"{measured[name].p50_us:.1f}",
                relative=f"{measured[name].relative:.3f}",
                wins=measured[name].wins,
            )
        else:
            reason = reasons.get(name, "the default was not measured")
            yield LeftOutCandidate(name=name, reason=reason)


@dataclass(frozen=True, slots=True)
class EngineRounds:
    """The measurements of an engine by round, under the name of the objective that compares them.

    `latency` has microseconds of a call over all executables; `start` milliseconds and `memory`
    peak bytes of each start of a process.
    """

    latency: Sequence[float]
    start: Sequence[float]
    memory: Sequence[float]


def engine_choice(
    engines: Sequence[str],
    rounds: Mapping[str, EngineRounds],
    reasons: Mapping[str, str],
    objective: Objective,
) -> EngineChoice:
    """Return the best engine for an objective: the first measured, unless another saves the margin.

    `engines` are in order of the list; `reasons` has why some were not measured.
    """
    measured: dict[str, Measured] = {}
    chosen = engines[0]
    if rounds:
        base = next(engine for engine in engines if engine in rounds)
        of = {each: getattr(rounds[each], objective) for each in engines if each in rounds}
        measured = summarize(of, base)
        chosen = choose(measured, base)
    return EngineChoice(
        objective=objective,
        engine=chosen,
        engines=tuple(
            MeasuredEngine(
                engine=engine,
                latency_us=_figure(rounds[engine].latency),
                start_ms=_figure(rounds[engine].start),
                memory_bytes=_sizes(rounds[engine].memory),
                relative=f"{measured[engine].relative:.3f}",
                wins=measured[engine].wins,
            )
            if engine in measured
            else LeftOutEngine(engine=engine, reason=reasons[engine])
            for engine in engines
        ),
        rounds=min((len(each.latency) for each in rounds.values()), default=0),
        starts=min((len(each.start) for each in rounds.values()), default=0),
        margin=repr(MARGIN),
    )


def _figure(values: Sequence[float]) -> Figure:
    median, least, most = statistics.median(values), min(values), max(values)
    return Figure(median=f"{median:.1f}", least=f"{least:.1f}", most=f"{most:.1f}")


def _sizes(values: Sequence[float]) -> SizeFigure:
    median, least, most = statistics.median(values), min(values), max(values)
    return SizeFigure(median=int(median), least=int(least), most=int(most))
