"""`aotc profiles suggest`: the profiles that serve the calls of a traffic log best."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotc.base.errors import refusal
from aotc.commands.profiles import size_space
from aotc.commands.profiles.profile_choice import Choice, choose
from aotc.commands.profiles.profile_routing import Served, serve
from aotc.commands.profiles.traffic_log import Traffic, read_traffic, within
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc.pipeline.build_plan import resolve_target
from aotc_runtime.base.suggestions import did_you_mean


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Suggested profiles for a target, which is as the manifest writes it.

    `accepted` is traffic that the entry point accepts, and `outside` counts other requests by
    reason. `most` is the number of allowed profiles. `served` and `today` are how suggested and
    current profiles serve the traffic.
    """

    manifest: BuildManifest
    target: str
    space: size_space.Space
    traffic: Traffic
    accepted: Traffic
    outside: dict[str, int]
    most: int
    choice: Choice
    served: Served
    today: Served

    @property
    def profiles(self) -> list[dict[str, int]]:
        """The suggested ones, sorted."""
        return [self.space.sizes(row) for row in self.choice.profiles]


def suggest(
    manifest_path: Path,
    log: Path,
    *,
    most: int,
    entry_point: str | None,
    target: str | None,
) -> Suggestion:
    """Return the profiles of one entry point that serve a log best, for one target.

    `most` is the largest number of profiles. Without `entry_point`, it is the only one with
    dimensions; without `target`, the manifest's first.

    Raises:
        UsageError: AOTC-E040 and E041 for the log, E042 for the entry point.
        BuildManifestError: For the manifest or the target.
    """
    manifest = read_build_manifest(manifest_path)
    written = target or manifest.targets[0]
    every = manifest.entry_points
    sized = [each for each in every if any(manifest.profiles(each, manifest.targets[0]))]
    name = entry_point_of(every, sized, entry_point)
    space = size_space.space_of_manifest(manifest, name, written)
    resolve_target(written, manifest.root, "--target")
    traffic = read_traffic(log, name, space.names)
    accepted, outside = accept(space, traffic, log)
    choice = choose(space, accepted.points, accepted.counts, most)

    served, today = (
        serve(space, accepted.points, accepted.counts, profiles)
        for profiles in (choice.profiles, space.points(space.profiles))
    )
    return Suggestion(
        manifest=manifest,
        target=written,
        space=space,
        traffic=traffic,
        accepted=accepted,
        outside=outside,
        most=most,
        choice=choice,
        served=served,
        today=today,
    )


def require_no_range(found: Suggestion) -> None:
    """Raise BuildManifestError (AOTC-E807) where profiles would replace a range."""
    manifest, name = found.manifest, found.space.entry_point
    if ranged := manifest.entry_points[name].ranged(manifest.dimensions):
        where = manifest.where("dimensions", ranged[0], "profiles")
        hint = "keep the range, or list the suggested sizes in its place"
        raise refusal("AOTC-E807", where, '"range" and --write', hint=hint)


def entry_point_of(every: Collection[str], sized: Sequence[str], wanted: str | None) -> str:
    """Return the entry point of `--entry`, or the only one with dimensions (`sized`).

    Raises UsageError (AOTC-E042).
    """
    if wanted is None and len(sized) == 1:
        return sized[0]
    if wanted in sized:
        assert wanted is not None, "it is one of the names"
        return wanted
    cause = "entry-point-has-no-dimensions"
    if wanted is not None and wanted not in every:
        cause = "entry-point-not-found"
    elif wanted is None and sized:
        cause = ""
    expected = f"one of: {', '.join(sized)}" if sized else ""
    hint = did_you_mean(wanted, sized, "pass `--entry NAME`") if sized else None
    raise refusal("AOTC-E042", "--entry", wanted or "", cause=cause, expected=expected, hint=hint)


def accept(space: size_space.Space, traffic: Traffic, log: Path) -> tuple[Traffic, dict[str, int]]:
    """Set aside requests that no profiles could serve. Raises UsageError (AOTC-E041) if all are."""
    accepted, refused = within(space, traffic)
    outside = {reason: int(traffic.counts[where].sum()) for reason, where in refused.items()}
    if not accepted.requests:
        found = ", ".join(f"{reason}: {count}" for reason, count in outside.items())
        cause = "all-logged-calls-exceed-the-accepted-sizes"
        raise refusal("AOTC-E041", str(log), found, cause=cause)
    return accepted, outside
