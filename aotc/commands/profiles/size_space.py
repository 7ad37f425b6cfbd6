"""The sizes that an entry point accepts, what it does with others, and what a call of them costs.

A cost does not decrease where a size grows: a profile larger than what it serves is never cheaper,
and the search in `aotc.commands.profiles.profile_choice` is exact or bounded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aotc.config.build_manifest import BuildManifest
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.size_expressions import Expression, Relation, parse_relation
from aotc_runtime.serving.routing.router import by_cost

Points = NDArray[np.int64]
"""int64[n, d]: sizes, a row for each point and a column for each dimension in sorted order."""

Counts = NDArray[np.int64]
"""int64[n]: how often each was asked for."""

type Sizes = Mapping[str, int]

RANGE = bundle_manifest.OutOfProfilePolicy.RANGE


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension, with inclusive bounds.

    `policy` is for sizes without a profile; for `compile`, it is that of calls meanwhile.
    """

    name: str
    minimum: int
    maximum: int
    multiple_of: int
    policy: bundle_manifest.OutOfProfilePolicy

    @property
    def pads(self) -> bool:
        """Return whether other sizes are padded."""
        return self.policy is bundle_manifest.OutOfProfilePolicy.PAD

    @property
    def splits(self) -> bool:
        """Return whether other sizes are split."""
        return self.policy is bundle_manifest.OutOfProfilePolicy.SPLIT


@dataclass(frozen=True, slots=True)
class Space:
    """The dimensions of an entry point, sorted by name.

    `profiles` are those it has today; `order`, once built, their numbers as the loader tries them.
    """

    entry_point: str
    axes: tuple[Axis, ...]
    relations: tuple[str, ...]
    profiles: tuple[Sizes, ...]
    order: tuple[int, ...] | None = None

    @property
    def policies(self) -> dict[str, bundle_manifest.OutOfProfilePolicy]:
        """Return the policy that applies at once to out-of-profile calls, by dimension.

        Every size of a range is among the profiles.
        """
        return {each.name: each.policy for each in self.axes if each.policy is not RANGE}

    @property
    def unserved(self) -> str:
        """Return why a call that is accepted may be refused all the same."""
        splits = any(axis.splits for axis in self.axes)
        return "no profile fits, nor do any add up to it" if splits else "no profile fits"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        return tuple(axis.name for axis in self.axes)

    def points(self, profiles: Sequence[Mapping[str, int]]) -> Points:
        """Return sizes by name as rows."""
        rows = [[sizes[name] for name in self.names] for sizes in profiles]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.axes))

    def sizes(self, point: Sequence[int] | Points) -> dict[str, int]:
        """Return a row as sizes by name."""
        return {name: int(size) for name, size in zip(self.names, point, strict=True)}

    def are_related(self, points: Points) -> NDArray[np.bool_]:
        """Return a mask of the points at which every relation holds."""
        held = np.ones(len(points), dtype=bool)
        for text in self.relations:
            held &= _holds(parse_relation(text), self.names, points)
        return held

    def refusals(self, points: Points) -> dict[str, NDArray[np.bool_]]:
        """Return masks of points that no profile can serve, by reason; the first reason counts."""
        left = np.ones(len(points), dtype=bool)
        reasons: dict[str, NDArray[np.bool_]] = {}

        def refuse(reason: str, where: NDArray[np.bool_]) -> None:
            nonlocal left
            if (found := where & left).any():
                reasons[reason] = found
                left = left & ~found

        for column, axis in enumerate(self.axes):
            sizes = points[:, column]
            refuse(f"{axis.name} below {axis.minimum}", sizes < axis.minimum)
            refuse(f"{axis.name} above {axis.maximum}", sizes > axis.maximum)
            refuse(f"{axis.name} no multiple of {axis.multiple_of}", sizes % axis.multiple_of != 0)
        for text in self.relations:
            refuse(f"not {text}", ~_holds(parse_relation(text), self.names, points))
        return reasons


def space_of_manifest(manifest: BuildManifest, entry_point: str, target: str) -> Space:
    """Return the sizes that an entry point accepts; `target` is spelled as in the manifest."""
    spec = manifest.entry_points[entry_point]
    profiles = manifest.profiles(entry_point, target)
    axes = tuple(
        Axis(name, d.minimum, d.maximum, d.multiple_of, _policy(spec.out_of_profile.get(name)))
        for name in sorted(profiles[0])
        for d in [manifest.dimensions[name].accepted]
    )
    return Space(entry_point, axes, spec.relations, _of_every_size(axes, profiles))


def space_of_bundle(manifest: bundle_manifest.BundleManifest, entry_point: str) -> Space:
    """Return the sizes that a built entry point accepts. Raises KeyError if it does not exist."""
    spec = manifest.entry_points[entry_point]
    axes = tuple(
        Axis(name, d.minimum, d.maximum, d.multiple_of, _policy(spec.out_of_profile.get(name)))
        for name in sorted(spec.dimensions)
        for d in [manifest.dimensions[name]]
    )
    every = _of_every_size(axes, [profile.sizes for profile in spec.profiles])
    has_range = any(axis.policy is RANGE for axis in axes)
    order = range(len(every)) if has_range else by_cost(spec.profiles)
    return Space(entry_point, axes, spec.relations, every, tuple(order))


def _of_every_size(axes: Sequence[Axis], profiles: Sequence[Sizes]) -> tuple[Sizes, ...]:
    """Return profiles, of a range one for each size: its executable is as good as one of each."""
    for axis in (each for each in axes if each.policy is RANGE):
        least, most = (pick(each[axis.name] for each in profiles) for pick in (min, max))
        whole = [each for each in profiles if each[axis.name] == most]
        sizes = range(least, most + 1, axis.multiple_of)
        profiles = [{**each, axis.name: size} for each in whole for size in sizes]
    return tuple(profiles)


def _policy(asked: bundle_manifest.DimensionPolicy | None) -> bundle_manifest.OutOfProfilePolicy:
    """Return the policy that applies at once: `meanwhile` for `compile`."""
    if isinstance(asked, bundle_manifest.CompileHere):
        return _policy(asked.meanwhile or None)
    if isinstance(asked, bundle_manifest.Pad):
        return bundle_manifest.OutOfProfilePolicy.PAD
    if isinstance(asked, bundle_manifest.Split):
        return bundle_manifest.OutOfProfilePolicy.SPLIT
    if isinstance(asked, bundle_manifest.Range):
        return RANGE
    return bundle_manifest.OutOfProfilePolicy.FAIL


def _holds(relation: Relation, names: Sequence[str], points: Points) -> NDArray[np.bool_]:
    left = _value(relation.left, names, points)
    right = _value(relation.right, names, points)
    compared: dict[str, Any] = {"<=": left <= right, ">=": left >= right, "==": left == right}
    return np.asarray(compared[relation.operator], dtype=bool)


def _value(expression: Expression, names: Sequence[str], points: Points) -> NDArray[np.float64]:
    """float64: products of sizes may exceed what 64 bits hold."""
    total = np.zeros(len(points))
    for coefficient, factors in expression.terms:
        term = np.full(len(points), float(coefficient))
        for name in factors:
            term *= points[:, names.index(name)]
        total += term
    return total


Costs = NDArray[np.float64]


def elements(points: Points) -> Costs:
    """Return float64[n]: the products of the sizes, which is what a call costs."""
    return np.asarray(np.prod(points.astype(np.float64), axis=1))
