"""Whether the profiles of a bundle serve some traffic well enough, and what they serve worst."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aotc.traffic.cost import Elements
from aotc.traffic.log import Traffic
from aotc.traffic.serve import Served, serve
from aotc.traffic.space import Space
from aotc_runtime.errors import Finding

OFFENDERS = 10


@dataclass(frozen=True, slots=True)
class Offender:
    """Calls of one size. served_by: a profile's sizes; None for calls that none serves, with the
    reason.  wasted: elements of padding, over all of these calls.
    """

    sizes: dict[str, int]
    count: int
    served_by: dict[str, int] | None
    reason: str
    overhead: float
    wasted: float


@dataclass(frozen=True, slots=True)
class Checked:
    """How a target's profiles serve some traffic, what is outside included."""

    target: str
    space: Space
    requests: int
    covered: int
    padding: float
    outside: dict[str, int]
    uncovered: tuple[Offender, ...]
    padded: tuple[Offender, ...]

    @property
    def coverage(self) -> float:
        return self.covered / self.requests


def check_traffic(space: Space, traffic: Traffic, target: str) -> Checked:
    """How the space's profiles serve this traffic. Costs are elements: the product of the sizes."""
    refused = space.refused(traffic.points)
    accepted = np.ones(len(traffic.points), dtype=bool)
    for where in refused.values():
        accepted &= ~where
    profiles = space.points(space.profiles)
    served = serve(space, traffic.points, traffic.counts, profiles, Elements())
    served.by[~accepted] = -1
    kept = serve(space, traffic.points[accepted], traffic.counts[accepted], profiles, Elements())
    return Checked(
        target=target,
        space=space,
        requests=traffic.requests,
        covered=kept.covered,
        padding=kept.padding,
        outside={reason: int(traffic.counts[where].sum()) for reason, where in refused.items()},
        uncovered=tuple(_uncovered(space, traffic, served, refused)),
        padded=tuple(_padded(space, traffic, served)),
    )


def _uncovered(
    space: Space, traffic: Traffic, served: Served, refused: dict[str, np.ndarray]
) -> Iterator[Offender]:
    missed = np.flatnonzero(served.by < 0)
    for index in missed[np.argsort(-traffic.counts[missed], kind="stable")][:OFFENDERS]:
        reasons = [reason for reason, where in refused.items() if where[index]]
        sizes = space.sizes(traffic.points[index])
        count = int(traffic.counts[index])
        yield Offender(sizes, count, None, (reasons or ["no profile fits"])[0], 0.0, 0.0)


def _padded(space: Space, traffic: Traffic, served: Served) -> Iterator[Offender]:
    covered = np.flatnonzero(served.by >= 0)
    real = Elements().of(traffic.points[covered])
    profiles = space.points(space.profiles)
    filled = Elements().of(profiles[served.by[covered]]) if len(covered) else real
    wasted = (filled - real) * traffic.counts[covered]
    for place in np.argsort(-wasted, kind="stable")[:OFFENDERS]:
        if wasted[place] > 0:
            index = covered[place]
            yield Offender(
                sizes=space.sizes(traffic.points[index]),
                count=int(traffic.counts[index]),
                served_by=space.sizes(profiles[served.by[index]]),
                reason="",
                overhead=float(filled[place] / real[place] - 1),
                wasted=float(wasted[place]),
            )


def gate(
    checked: Checked, min_coverage: float | None, max_padding: float | None
) -> Iterator[Finding]:
    """AOTC-E971 for too little coverage, AOTC-E972 for too much padding."""
    where = f"{checked.space.entry_point} for {checked.target}"
    if min_coverage is not None and checked.coverage < min_coverage:
        worst = checked.uncovered[0]
        sizes = ", ".join(f"{name}={size}" for name, size in worst.sizes.items())
        yield Finding(
            code="AOTC-E971",
            where=where,
            expected=f"profiles for at least {min_coverage:.6g} of all calls",
            found=f"{checked.coverage:.6g}: {checked.requests - checked.covered} of "
            f"{checked.requests} calls have none; most often {sizes} ({worst.reason})",
            hint="`aotc profiles suggest MANIFEST --traffic` finds profiles that serve them",
        )
    if max_padding is not None and checked.padding > max_padding:
        worst = checked.padded[0]
        sizes = ", ".join(f"{name}={size}" for name, size in worst.sizes.items())
        to = ", ".join(f"{name}={size}" for name, size in (worst.served_by or {}).items())
        yield Finding(
            code="AOTC-E972",
            where=where,
            expected=f"at most {max_padding:.6g} elements of padding per element",
            found=f"{checked.padding:.6g}; most of it from {sizes} padded to {to}, "
            f"{worst.count} times",
            hint="`aotc profiles suggest MANIFEST --traffic` finds profiles that fit better",
        )
