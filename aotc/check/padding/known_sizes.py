"""The sizes that an entry point accepts, and the profiles that serve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from msgspec import Struct

from aotc.check.padding.trial_records import Sizes
from aotc_runtime.schema.bundle_manifest import Dimension
from aotc_runtime.schema.size_expressions import Relation

POINTS_MAX = 4096
"""Combinations of sizes that are looked at for one profile; of more, evenly spaced ones."""


class Known(Struct, frozen=True):
    """accepted: the sizes of each dimension.  relations: between them.  profiles: of a target."""

    accepted: Mapping[str, Dimension]
    relations: Sequence[Relation]
    profiles: Sequence[Sizes]

    def sizes_below(self, profile: Sizes, name: str) -> range:
        """Sizes of one dimension that are padded to this profile, whatever relations say."""
        alike = [p[name] for p in self.profiles if {**p, name: 0} == {**profile, name: 0}]
        below = max((size for size in alike if size < profile[name]), default=0)
        accepted = self.accepted[name]
        step = accepted.multiple_of
        low = max(-(-accepted.smallest // step) * step, (below // step + 1) * step)
        return range(low, profile[name], step)

    def below(self, profile: Sizes, names: Sequence[str]) -> list[Sizes]:
        """Accepted sizes that are below the profile in each of these dimensions, and the profile's
        own in the others; the smallest first.
        """
        return self._allowed(profile, {name: self.sizes_below(profile, name) for name in names})

    def at_most(self, sizes: Sizes, names: Sequence[str]) -> list[Sizes]:
        """Accepted sizes that are no larger in these dimensions; the smallest first."""
        ranges: dict[str, range] = {}
        for name in names:
            accepted = self.accepted[name]
            step = accepted.multiple_of
            low = -(-accepted.smallest // step) * step
            ranges[name] = range(low, sizes[name] + 1, step)
        return self._allowed(sizes, ranges)

    def _allowed(self, sizes: Sizes, ranges: Mapping[str, range]) -> list[Sizes]:
        each = int(POINTS_MAX ** (1 / max(1, len(ranges))))
        points = [
            {**sizes, **dict(zip(ranges, point, strict=True))}
            for point in product(*(_thinned(values, each) for values in ranges.values()))
        ]
        allowed = [p for p in points if all(relation.holds(p) for relation in self.relations)]
        return sorted(allowed, key=lambda p: (prod(p.values()), tuple(p.values())))


def _thinned(values: range, most: int) -> list[int]:
    """At most so many of these values, evenly from the first to the last."""
    if len(values) <= most:
        return list(values)
    return sorted({values[(len(values) - 1) * index // (most - 1)] for index in range(most)})
