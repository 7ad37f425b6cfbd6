"""Plans which calls are tried to test padding and splitting.

They are several sizes below each profile, with every kind of fill; the sums of profiles that a
larger call is split into; and calls of different sizes side by side.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from aotc.base.stages import CapturedEntryPoint
from aotc.check.padding.trial_records import (
    ABOUT_FLOATS,
    ABOUT_NUMBERS,
    DECLARED,
    FIXTURE,
    HIGH,
    LARGEST,
    LOW,
    MIXED,
    REVERSED,
    SMALLEST,
    EntryTrials,
    PlannedTrial,
    Sizes,
    fill_of,
    is_float,
)
from aotc.check.padding.trial_run import shape_at
from aotc.config.build_manifest import DimensionSpec, EntryPointSpec, at_once
from aotc_runtime.schema.bundle_manifest import Dimension, DType, Pad, Split
from aotc_runtime.schema.size_expressions import Relation, parse_expression, parse_relation
from aotc_runtime.serving.routing.joined_rows import mixable

POINTS_MAX = 4096
"""Combinations of sizes that are considered for one profile; of more, evenly spaced ones."""


MANY_PROFILES = 6
"""With more profiles, each is tried with its smallest and its largest padding only."""


ZERO_OR_ONE = (0, 1)

HALVES = (LOW, HIGH)
EVERY = (*HALVES, MIXED, REVERSED)
"""Inputs beside the fixture's. Each trial costs a call, and at the smallest size below a profile it
is least likely that a real number hides a leak, so every kind is tried there only."""


class _Planner(Struct, frozen=True):
    """Plans the trials of an entry point for one target.

    Attributes:
        captured: The entry point.
        entry: Its fills and masks, without trials.
        pads: Names of the dimensions that are padded, sorted.
        accepted: The sizes of each dimension.
        relations: Between them.
        profiles: Of the target.
    """

    captured: CapturedEntryPoint
    entry: EntryTrials
    pads: Sequence[str]
    accepted: Mapping[str, Dimension]
    relations: Sequence[Relation]
    profiles: Sequence[Sizes]

    def sizes_below(self, profile: Sizes, name: str) -> range:
        """Return sizes of one dimension that are padded to this profile, whatever relations say."""
        alike = [p[name] for p in self.profiles if {**p, name: 0} == {**profile, name: 0}]
        below = max((size for size in alike if size < profile[name]), default=0)
        step = self.accepted[name].multiple_of
        return range(max(self.least(name), (below // step + 1) * step), profile[name], step)

    def least(self, name: str) -> int:
        """Return the smallest accepted size of a dimension."""
        step = self.accepted[name].multiple_of
        return -(-self.accepted[name].smallest // step) * step

    def below(self, profile: Sizes, names: Sequence[str]) -> list[Sizes]:
        """Return accepted sizes below the profile in these dimensions, the smallest first.

        In other dimensions they have the profile's size.
        """
        return self._allowed(profile, {name: self.sizes_below(profile, name) for name in names})

    def at_most(self, sizes: Sizes, names: Sequence[str]) -> list[Sizes]:
        """Accepted sizes that are no larger in these dimensions; the smallest first."""
        ranges = {
            name: range(self.least(name), sizes[name] + 1, self.accepted[name].multiple_of)
            for name in names
        }
        return self._allowed(sizes, ranges)

    def _allowed(self, sizes: Sizes, ranges: Mapping[str, range]) -> list[Sizes]:
        each = int(POINTS_MAX ** (1 / max(1, len(ranges))))
        points = [
            {**sizes, **dict(zip(ranges, point, strict=True))}
            for point in product(*(_thinned(values, each) for values in ranges.values()))
        ]
        allowed = [p for p in points if all(relation.holds(p) for relation in self.relations)]
        return sorted(allowed, key=lambda p: (prod(p.values()), tuple(p.values())))

    def padded(self) -> Iterator[PlannedTrial]:
        """Yield trials below each profile, padded in one dimension and in all."""
        is_many = len(self.profiles) > MANY_PROFILES
        for profile in self.profiles:
            alone = {name: self.below(profile, (name,)) for name in self.pads}
            for name, points in alone.items():
                chosen = _ends_and_middle(points)
                for sizes in chosen[:: len(chosen) - 1 or 1] if is_many else chosen:
                    samples = EVERY if sizes == chosen[0] else HALVES
                    yield from self._tried((name,), sizes, profile, samples)
            together = tuple(name for name in self.pads if self.sizes_below(profile, name))
            if len(together) > 1:
                points = self.below(profile, together)
                # Where a relation ties sizes together, no call is padded in one of them alone.
                is_tied = any(not alone[name] for name in together)
                for sizes in _ends_and_middle(points) if is_tied else points[:1]:
                    samples = EVERY if is_tied and sizes == points[0] else HALVES
                    yield from self._tried(together, sizes, profile, samples)

    def _tried(
        self, dimensions: tuple[str, ...], sizes: Sizes, profile: Sizes, samples: Sequence[str]
    ) -> Iterator[PlannedTrial]:
        given = {*self.entry.masks, *self.entry.lengths}
        padded = {
            leaf: tensor
            for leaf, tensor in enumerate(self.captured.inputs)
            if leaf not in given and shape_at(tensor, sizes) != shape_at(tensor, profile)
        }
        kinds = [(fill, FIXTURE) for fill in self._fills(dimensions)]
        kinds += [(DECLARED, sample) for sample in samples]
        if not self.entry.ranges.keys().isdisjoint(padded):
            # The largest of a range may be among the fixture's numbers, and then adds nothing.
            kinds += [(LARGEST, LOW), (SMALLEST, HIGH)]
        for fill, inputs in kinds:
            filled = {
                tensor.path: str(fill_of(self.entry, leaf, tensor.dtype, fill))
                for leaf, tensor in padded.items()
            }
            yield PlannedTrial(dimensions, sizes, (profile,), fill, inputs, filled)

    def _fills(self, dimensions: Sequence[str]) -> Sequence[str]:
        """Return the types of fill that change at least one input."""
        given = {*self.entry.held, *self.entry.masks, *self.entry.lengths}
        dtypes = [
            tensor.dtype
            for leaf, tensor in enumerate(self.captured.inputs)
            if leaf not in given
            and any(not parse_expression(a).names().isdisjoint(dimensions) for a in tensor.shape)
        ]
        if not dtypes:
            return (DECLARED,)
        floats = ABOUT_FLOATS if any(map(is_float, dtypes)) else ()
        return (DECLARED, *floats, *ABOUT_NUMBERS)

    def split(self, name: str) -> Iterator[PlannedTrial]:
        """Yield trials with twice the same profile, and a profile with the next smaller one."""
        groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
        for profile in self.profiles:
            others = tuple((key, size) for key, size in profile.items() if key != name)
            groups.setdefault(others, []).append(profile[name])
        for others, sizes in groups.items():
            pairs = [(size, size) for size in sizes] + [(b, a) for a, b in pairwise(sorted(sizes))]
            for parts in pairs:
                if sum(parts) not in self.accepted[name]:
                    continue
                whole = dict(sorted({**dict(others), name: sum(parts)}.items()))
                # What a relation forbids at the profile's own sizes, smaller ones may be allowed.
                allowed = self.at_most(whole, [pad for pad in self.pads if pad != name])
                for inputs in (FIXTURE, *HALVES) if allowed else ():
                    yield PlannedTrial(
                        dimensions=(name,),
                        sizes=allowed[-1],
                        profiles=tuple(
                            dict(sorted({**whole, name: part}.items())) for part in parts
                        ),
                        fill="",
                        inputs=inputs,
                    )

    def beside(self, name: str) -> Iterator[PlannedTrial]:
        """Yield trials with one row beside rows of calls of other sizes where it is padded.

        They are the smallest and the largest call, in the profile with the fewest rows of those
        alike in the rest.
        """
        inputs, outputs = self.captured.inputs, self.captured.outputs
        mixed = mixable(inputs, outputs, name, self.pads, self.entry.masks, self.entry.lengths)
        least = self.least(name)
        tried: set[tuple[tuple[str, int], ...]] = set()
        for profile in sorted(self.profiles, key=lambda sizes: sizes[name]):
            others = tuple((key, size) for key, size in profile.items() if key != name)
            if not mixed or profile[name] <= least or others in tried:
                continue
            tried.add(others)
            allowed = self.at_most({**profile, name: least}, mixed)
            smallest = {key: allowed[0][key] for key in mixed} if allowed else {}
            if smallest == {key: profile[key] for key in mixed}:
                continue
            for sizes in (allowed[0], allowed[-1]) if allowed else ():
                for sample in (FIXTURE, *HALVES) if sizes == allowed[0] else (FIXTURE,):
                    yield PlannedTrial((name,), sizes, (profile,), DECLARED, sample, {}, smallest)


def _thinned(values: range, most: int) -> list[int]:
    """Return at most `most` of these values, evenly spaced, with the first and the last."""
    if len(values) <= most:
        return list(values)
    return sorted({values[(len(values) - 1) * index // (most - 1)] for index in range(most)})


def plan_trials(
    captured: CapturedEntryPoint,
    spec: EntryPointSpec,
    dimensions: Mapping[str, DimensionSpec],
    profiles: Sequence[Mapping[str, int]],
    ranges: Mapping[str, tuple[int, int]],
) -> EntryTrials:
    """Plan the trials of an entry point for the profiles of one target.

    `ranges` maps paths of inputs to the smallest and largest integers that they hold, as
    `aotc.check.padding.trial_samples.ranges` returns them.
    """
    policies = {name: at_once(policy) for name, policy in spec.out_of_profile.items()}
    pads = spec.pads
    leaf_of = {tensor.path: index for index, tensor in enumerate(captured.inputs)}
    fills = {
        leaf_of[path]: value
        for pad in pads.values()
        for path, value in pad.fill.items()
        if path in leaf_of
    }
    masks: dict[int, tuple[str, ...]] = {}
    for name, pad in pads.items():
        if pad.mask:
            leaf = leaf_of[pad.mask]
            masks[leaf] = (*masks.get(leaf, ()), name)
    bounds = {leaf_of[path]: each for path, each in sorted(ranges.items())}
    entry = EntryTrials(
        entry_point=captured.name,
        rtol=spec.tolerance.rtol,
        atol=spec.tolerance.atol,
        fills=fills,
        held=_held(captured, fills, bounds),
        masks=masks,
        lengths={leaf_of[pad.length]: name for name, pad in pads.items() if pad.length},
        trials=(),
        ranges=bounds,
        marks=_marks(captured, fills, bounds, pads),
    )
    relations = [parse_relation(text) for text in spec.relations]
    accepted = {name: known.accepted for name, known in dimensions.items()}
    sizes = [dict(each) for each in profiles]
    planner = _Planner(captured, entry, sorted(pads), accepted, relations, sizes)
    planned = [*planner.padded()]
    for name, policy in policies.items():
        if isinstance(policy, Split):
            planned += [*planner.split(name), *planner.beside(name)]
    return replace(entry, trials=tuple(planned))


def _held(
    captured: CapturedEntryPoint, fills: Mapping[int, str], ranges: Mapping[int, tuple[int, int]]
) -> tuple[int, ...]:
    """Return the leaves that may be a caller's own mask, for which another fill proves nothing.

    They are booleans, and integers of 0 and 1 whose fill is stated.
    """
    return tuple(
        leaf
        for leaf, tensor in enumerate(captured.inputs)
        if tensor.dtype is DType.BOOL or (leaf in fills and ranges.get(leaf) == ZERO_OR_ONE)
    )


def _marks(
    captured: CapturedEntryPoint,
    fills: Mapping[int, str],
    ranges: Mapping[int, tuple[int, int]],
    pads: Mapping[str, Pad],
) -> dict[str, str]:
    """Map inputs that may be a caller's own mask, without a stated fill, to the fill to state.

    It is the value that they do not hold, or are not held at.
    """
    by_loader = {pad.mask for pad in pads.values()}
    return {
        tensor.path: "true" if tensor.dtype is DType.BOOL else "0"
        for leaf, tensor in enumerate(captured.inputs)
        if leaf not in fills
        and tensor.path not in by_loader
        and (tensor.dtype is DType.BOOL or ranges.get(leaf) == ZERO_OR_ONE)
    }


def _ends_and_middle(points: Sequence[Sizes]) -> list[Sizes]:
    """Return the first, one in the middle, the last."""
    last = len(points) - 1
    return [points[index] for index in sorted({0, last // 2, last})] if points else []
