"""Judge how well the profiles of a bundle serve some traffic, and find the worst served calls.

Needs no trust policy: nothing is loaded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aotc.base.errors import finding, refusal
from aotc.commands.profiles.profile_routing import Served, serve
from aotc.commands.profiles.size_space import Space, elements, space_of_bundle
from aotc.commands.profiles.suggested_profiles import entry_point_of
from aotc.commands.profiles.traffic_log import Traffic, read_traffic, within
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.schema.bundle_manifest import OutOfProfilePolicy
from aotc_runtime.schema.manifest_labels import sizes_text
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified

OFFENDERS = 10


@dataclass(frozen=True, slots=True)
class Calls:
    """A number of calls of the profile with these sizes."""

    sizes: dict[str, int]
    times: int


@dataclass(frozen=True, slots=True)
class Offender:
    """Requests of one size.

    `served_by` has the profiles of the calls for one request; none for rejected ones, with the
    reason. `wasted` counts elements of padding over all of these requests.
    """

    sizes: dict[str, int]
    count: int
    served_by: tuple[Calls, ...]
    reason: str
    overhead: float
    wasted: float


@dataclass(frozen=True, slots=True)
class Checked:
    """Traffic as a target's profiles serve it; `outside` counts requests that no profile can."""

    target: str
    space: Space
    requests: int
    served: Served
    outside: dict[str, int]
    uncovered: tuple[Offender, ...]
    padded: tuple[Offender, ...]

    @property
    def coverage(self) -> float:
        """The share of requests that are served."""
        return self.served.covered / self.requests


def check_bundle(
    bundle: Path, log: Path, entry_point: str | None = None, target: str | None = None
) -> tuple[tuple[Checked, ...], Traffic]:
    """Return how each target of a bundle serves the calls of one entry point.

    Raises BundleFormatError, IntegrityError; UsageError: AOTC-E040 and E041 for the log, E042 for
    an entry point, E045 for a target that is not there.
    """
    contents, _ = read_unverified(open_streamed(bundle))
    manifests = contents.manifests
    if target is not None and target not in manifests:
        expected, hint = f"one of: {', '.join(manifests)}", did_you_mean(target, manifests, "")
        raise refusal("AOTC-E045", "--target", target, expected=expected, hint=hint)
    first = next(iter(manifests.values()))
    sized = [each for each, entry in first.entry_points.items() if entry.dimensions]
    name = entry_point_of(first.entry_points, sized, entry_point)
    traffic = read_traffic(log, name, sorted(first.entry_points[name].dimensions))
    checked = tuple(
        check_traffic(space_of_bundle(manifest, name), traffic, each)
        for each, manifest in manifests.items()
        if target in (None, each)
    )
    return checked, traffic


def check_traffic(space: Space, traffic: Traffic, target: str) -> Checked:
    """Return how the space's profiles serve this traffic. A cost is the product of the sizes."""
    accepted, refused = within(space, traffic)
    profiles = space.points(space.profiles)
    served = serve(space, accepted.points, accepted.counts, profiles, space.order)
    return Checked(
        target=target,
        space=space,
        requests=traffic.requests,
        served=served,
        outside={reason: int(traffic.counts[where].sum()) for reason, where in refused.items()},
        uncovered=tuple(_uncovered_sizes(space, traffic, accepted, served, refused)),
        padded=tuple(_padded_sizes(space, accepted, served)),
    )


def _uncovered_sizes(
    space: Space,
    traffic: Traffic,
    accepted: Traffic,
    served: Served,
    refused: dict[str, np.ndarray],
) -> list[Offender]:
    missed = ~served.is_covered
    found = [
        (accepted.points[missed], accepted.counts[missed], space.unserved),
        *((traffic.points[where], traffic.counts[where], why) for why, where in refused.items()),
    ]
    offenders = [
        Offender(space.sizes(points[index]), int(counts[index]), (), why, 0.0, 0.0)
        for points, counts, why in found
        for index in np.argsort(-counts, kind="stable")[:OFFENDERS]
    ]
    return sorted(offenders, key=lambda each: -each.count)[:OFFENDERS]


def _padded_sizes(space: Space, accepted: Traffic, served: Served) -> Iterator[Offender]:
    real = elements(accepted.points)
    profiles = space.points(space.profiles)
    filled = (served.calls @ elements(profiles))[served.of_route]
    wasted = np.where(served.is_covered, (filled - real) * accepted.counts, 0.0)
    for index in np.argsort(-wasted, kind="stable")[:OFFENDERS]:
        if wasted[index] > 0:
            times = served.calls[served.of_route[index]]
            yield Offender(
                sizes=space.sizes(accepted.points[index]),
                count=int(accepted.counts[index]),
                served_by=tuple(
                    Calls(space.sizes(profiles[k]), int(times[k])) for k in np.flatnonzero(times)
                ),
                reason="",
                overhead=float(filled[index] / real[index] - 1),
                wasted=float(wasted[index]),
            )


def gate(
    checked: Checked, min_coverage: float | None, max_padding: float | None
) -> Iterator[Finding]:
    """Yield AOTC-E971 for too little coverage, AOTC-E972 for too much padding."""
    where, padding = f"{checked.space.entry_point} for {checked.target}", checked.served.padding
    if min_coverage is not None and checked.coverage < min_coverage:
        worst, missed = checked.uncovered[0], checked.requests - checked.served.covered
        most = f"most often {sizes_text(worst.sizes)} ({worst.reason})"
        calls = f"{missed} of {checked.requests} calls without a profile, {most}"
        found = f"{checked.coverage:.6g}: {calls}"
        expected = f"at least {min_coverage:.6g} of all calls"
        yield finding("AOTC-E971", where, found, expected=expected, hint=_hint(checked))
    if max_padding is not None and padding > max_padding:
        worst = checked.padded[0]
        times = "once" if worst.count == 1 else f"{worst.count} times"
        source = f"{sizes_text(worst.sizes)} padded to {calls_text(worst.served_by)}, {times}"
        expected = f"at most {max_padding:.6g} elements of padding per element"
        found = f"{padding:.6g}; most of it from {source}"
        yield finding("AOTC-E972", where, found, expected=expected)


def _hint(checked: Checked) -> str:
    suggest = "`aotc profiles suggest MANIFEST --traffic` finds profiles that serve them"
    space = checked.space
    failing = [a.name for a in space.axes if a.policy is OutOfProfilePolicy.FAIL]
    if not failing or all(each.reason != space.unserved for each in checked.uncovered):
        return suggest
    stated = ", ".join(f'out_of_profile.{name} = "pad"' for name in failing)
    return f"serve sizes between profiles by padding, {stated}; then {suggest}"


def calls_text(calls: tuple[Calls, ...]) -> str:
    """batch=8,seq=64; for several calls 3 x batch=8,seq=64 + batch=1,seq=64."""
    return " + ".join(
        f"{each.times} x " * (each.times > 1) + sizes_text(each.sizes) for each in calls
    )
