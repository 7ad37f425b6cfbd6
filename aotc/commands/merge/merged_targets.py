"""Joins the targets of several bundles: their documents stay the same bytes, each blob is stored
once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from aotc.base.errors import finding, raise_if
from aotc.bundle.write.bundle_writer import Assembled, rooted
from aotc.commands.merge.bundle_parts import TargetPart
from aotc.commands.merge.fixture_match import check_fixtures
from aotc.commands.merge.same_source import check_same_source
from aotc_runtime.base.errors import Finding


def merge(parts: Sequence[TargetPart]) -> Assembled:
    """Join targets of the same program.

    The result depends on the targets alone, not on their order or on how they were distributed
    over bundles. Raises UsageError: AOTC-E050 bundles of different programs, every difference at
    once; E051 two different targets of one name.
    """
    raise_if([*check_same_source(parts), *check_fixtures(parts)])
    raise_if(_check_targets(parts))
    chosen = {part.manifest.target.name: part for part in reversed(parts)}
    ordered = [chosen[name] for name in sorted(chosen)]
    return rooted(
        [part.reference for part in ordered],
        {digest: blob for part in ordered for digest, blob in part.blobs.items()},
        {part.manifest.target.name: part.manifest for part in ordered},
    )


def _check_targets(parts: Iterable[TargetPart]) -> Iterator[Finding]:
    first: dict[str, TargetPart] = {}
    for part in parts:
        name = part.manifest.target.name
        other = first.setdefault(name, part)
        if other.reference.digest != part.reference.digest:
            yield finding(
                "AOTC-E051",
                f"{part.bundle} {name}",
                f"{part.reference.digest}, {_executables(part, other)}",
                target=name,
                digest=other.reference.digest,
                bundle=other.bundle,
            )


def _executables(part: TargetPart, other: TargetPart) -> str:
    """In which executables two targets differ."""
    one, two = (
        {
            (name, index): profile.executable.digest
            for name, entry_point in p.manifest.entry_points.items()
            for index, profile in enumerate(entry_point.profiles)
        }
        for p in (part, other)
    )
    differ = sum(one.get(key) != two.get(key) for key in one.keys() | two.keys())
    return f"of whose {len(one)} executables {differ} differ"
