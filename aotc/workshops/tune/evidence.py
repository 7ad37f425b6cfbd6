"""What a bundle says of each candidate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aotc.workshops.tune.choose import Measured
from aotc_runtime.schema.manifest import LeftOutCandidate, MeasuredCandidate, TuningCandidate


def evidence(
    names: Sequence[str], measured: Mapping[str, Measured], reasons: Mapping[str, str]
) -> Iterator[TuningCandidate]:
    """Figures, or why there are none, in the order of the names."""
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
