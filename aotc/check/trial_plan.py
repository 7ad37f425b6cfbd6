"""Plans the trials of an entry point.

Executables take calls of their own sizes as they are, with every kind of inputs. To test padding
and splitting, there are several sizes below each profile, with every kind of fill; the sums of
profiles that a larger call is split into; and calls of different sizes side by side.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from aotc.base.stages import CapturedEntryPoint
from aotc.check import trial_inputs, trial_run
from aotc.check.trial_records import FIXTURE, Array, Call, EntryTrials, Sizes, Trial
from aotc.config.build_manifest import DimensionSpec, EntryPointSpec, InputLeaf, at_once
from aotc.config.dimension_specs import thin
from aotc_runtime.schema.bundle_manifest import Dimension, DType, Split, TensorSpec
from aotc_runtime.schema.manifest_labels import executable_key
from aotc_runtime.schema.size_expressions import Relation, parse_expression, parse_relation
from aotc_runtime.serving.routing.joined_rows import mixable
from aotc_runtime.serving.routing.padded_arrays import fill_value
from aotc_runtime.serving.routing.router import add_up

POINTS_MAX = 4096
"""Combinations of sizes that are considered for one profile; of more, evenly spaced ones."""

MANY_PROFILES = 6
"""With more profiles, each is tried with its smallest and its largest padding only."""

PARTS_TRIED_MAX, SMALL_PARTS_MAX = 64, 512
"""Most parts of a call that is tried: plain JAX has to take it whole. Calls may have more."""

SMALL = 2**18
"""Most numbers that the inputs of a call of SMALL_PARTS_MAX parts hold."""

ZERO_OR_ONE = (0, 1)

HALVES = (trial_inputs.LOW, trial_inputs.HIGH)
EVERY = (*HALVES, trial_inputs.MIXED, trial_inputs.REVERSED, trial_inputs.FILL_ROW)
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
        rows: Kinds of inputs with rows of NaN and infinities, if callers may pass these.
    """

    captured: CapturedEntryPoint
    entry: EntryTrials
    pads: Sequence[str]
    accepted: Mapping[str, Dimension]
    relations: Sequence[Relation]
    profiles: Sequence[Sizes]
    rows: Sequence[str]

    def call(self, sizes: Sizes, inputs: str) -> Call:
        """Return a call of the entry point."""
        return Call(executable_key(self.captured.name, sizes), inputs)

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
        return self._possible(profile, {name: self.sizes_below(profile, name) for name in names})

    def at_most(self, sizes: Sizes, names: Sequence[str]) -> list[Sizes]:
        """Accepted sizes that are no larger in these dimensions; the smallest first."""
        ranges = {
            name: range(self.least(name), sizes[name] + 1, self.accepted[name].multiple_of)
            for name in names
        }
        return self._possible(sizes, ranges)

    def _possible(self, sizes: Sizes, ranges: Mapping[str, range]) -> list[Sizes]:
        each = int(POINTS_MAX ** (1 / max(1, len(ranges))))
        points = [
            {**sizes, **dict(zip(ranges, point, strict=True))}
            for point in product(*(thin(values, each) for values in ranges.values()))
        ]
        allowed = [p for p in points if all(relation.holds(p) for relation in self.relations)]
        return sorted(allowed, key=lambda p: (prod(p.values()), tuple(p.values())))

    def padding_trials(self) -> Iterator[Trial]:
        """Yield trials below each profile, padded in one dimension and in all."""
        is_many = len(self.profiles) > MANY_PROFILES
        for profile in self.profiles:
            alone = {name: self.below(profile, (name,)) for name in self.pads}
            for name, points in alone.items():
                chosen = thin(points, 3)
                for sizes in chosen[:: len(chosen) - 1 or 1] if is_many else chosen:
                    samples = EVERY if sizes == chosen[0] else (*HALVES, *self.rows)
                    yield from self._plan_trials((name,), sizes, profile, samples)
            together = tuple(name for name in self.pads if self.sizes_below(profile, name))
            if len(together) > 1:
                points = self.below(profile, together)
                # Where a relation ties sizes together, no call is padded in one of them alone.
                is_tied = any(not alone[name] for name in together)
                for sizes in thin(points, 3) if is_tied else points[:1]:
                    samples = EVERY if is_tied and sizes == points[0] else (*HALVES, *self.rows)
                    yield from self._plan_trials(together, sizes, profile, samples)

    def _plan_trials(
        self, dimensions: tuple[str, ...], sizes: Sizes, profile: Sizes, samples: Sequence[str]
    ) -> Iterator[Trial]:
        given = {*self.entry.masks, *self.entry.lengths}
        padded = {
            tensor.path: tensor.dtype
            for tensor in self.captured.inputs
            if tensor.path not in given
            and trial_run.shape_at(tensor, sizes) != trial_run.shape_at(tensor, profile)
        }
        kinds = [(fill, FIXTURE) for fill in self._fills(dimensions)]
        kinds += [(trial_run.DECLARED, sample) for sample in samples]
        if not self.entry.ranges.keys().isdisjoint(padded):
            # The largest of a range may be among the fixture's numbers, and then adds nothing.
            kinds += [
                (trial_run.LARGEST, trial_inputs.LOW),
                (trial_run.SMALLEST, trial_inputs.HIGH),
            ]
        for fill, inputs in kinds:
            filled = {
                path: str(trial_run.fill_of(self.entry, path, dtype, fill))
                for path, dtype in padded.items()
            }
            yield Trial(self.call(sizes, inputs), dimensions, (profile,), fill, filled)

    def _fills(self, dimensions: Sequence[str]) -> Sequence[str]:
        """Return the types of fill that change at least one input."""
        given = {*self.entry.held, *self.entry.masks, *self.entry.lengths}
        dtypes = [
            tensor.dtype
            for tensor in self.captured.inputs
            if tensor.path not in given
            and any(not parse_expression(a).names().isdisjoint(dimensions) for a in tensor.shape)
        ]
        if not dtypes:
            return (trial_run.DECLARED,)
        floats = trial_run.ABOUT_FLOATS if any(map(trial_run.is_float, dtypes)) else ()
        return (trial_run.DECLARED, *floats, *trial_run.ABOUT_NUMBERS)

    def split(self, name: str) -> Iterator[Trial]:
        """Yield trials with twice a profile, one with the next smaller, and with the most rows."""
        groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
        for profile in self.profiles:
            others = tuple((key, size) for key, size in profile.items() if key != name)
            groups.setdefault(others, []).append(profile[name])
        for others, sizes in groups.items():
            pairs = [(size, size) for size in sizes] + [(b, a) for a, b in pairwise(sorted(sizes))]
            for parts in dict.fromkeys([*pairs, self._most_parts(name, sizes, dict(others))]):
                if sum(parts) not in self.accepted[name]:
                    continue
                whole = dict(sorted({**dict(others), name: sum(parts)}.items()))
                # What a relation forbids at the profile's own sizes, smaller ones may be allowed.
                allowed = self.at_most(whole, [pad for pad in self.pads if pad != name])
                kinds = (FIXTURE, *HALVES, trial_inputs.RISING, *self.rows, trial_inputs.EQUAL_ROWS)
                for inputs in kinds if allowed else ():
                    yield Trial(
                        self.call(allowed[-1], inputs),
                        dimensions=(name,),
                        profiles=tuple({**whole, name: part} for part in parts),
                    )

    def _most_parts(self, name: str, sizes: Collection[int], others: Sizes) -> tuple[int, ...]:
        """Return smaller profiles that add up to the largest call; () if none do."""
        # It may have the size of a profile, as joined requests do.
        accepted = self.accepted[name]
        whole = {**others, name: min(accepted.largest, max(sizes) * SMALL_PARTS_MAX)}
        held = sum(prod(trial_run.shape_at(each, whole)) for each in self.captured.inputs)
        most = SMALL_PARTS_MAX if held <= SMALL else PARTS_TRIED_MAX
        largest = min(accepted.largest, max(sizes) * most)
        down = range(largest, 0, -accepted.multiple_of)
        made = (add_up(size, [each for each in sizes if each < size]) for size in down)
        return next((tuple(parts) for parts in made if parts and len(parts) <= most), ())

    def beside(self, name: str) -> Iterator[Trial]:
        """Yield trials with one row beside rows of calls of other sizes where it is padded.

        They are the smallest and the largest call, in the profile with the fewest rows of those
        alike in the rest.
        """
        inputs, outputs = self.captured.inputs, self.captured.outputs
        entry, leaves = self.entry, {tensor.path: leaf for leaf, tensor in enumerate(inputs)}
        masks = {leaves[path]: each for path, each in entry.masks.items()}
        lengths = {leaves[path]: each for path, each in entry.lengths.items()}
        mixed = mixable(inputs, outputs, name, self.pads, masks, lengths)
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
                    call = self.call(sizes, sample)
                    yield Trial(call, (name,), (profile,), trial_run.DECLARED, beside=smallest)


def plan_trials(
    captured: CapturedEntryPoint,
    spec: EntryPointSpec,
    dimensions: Mapping[str, DimensionSpec],
    profiles: Sequence[Mapping[str, int]],
    fixtures: Iterable[Mapping[str, Array]] = (),
) -> EntryTrials:
    """Plan the trials of an entry point for the profiles of one target.

    `fixtures` has the inputs of each profile by path.
    """
    name, pads = captured.name, spec.pads
    # Nothing else in plain JAX depends on the tolerance, and the plan is a part of its cache key.
    tolerance = spec.tolerance if spec.out_of_profile else None
    fills = {path: value for pad in pads.values() for path, value in pad.fill.items()}
    masks: dict[str, tuple[str, ...]] = {}
    for dimension, pad in pads.items():
        if pad.mask:
            masks[pad.mask] = (*masks.get(pad.mask, ()), dimension)
    held = ranges(captured.inputs, spec, fixtures) if spec.out_of_profile else {}
    # A caller's own mask, for which another fill proves nothing.
    own = {
        tensor.path: "true" if tensor.dtype is DType.BOOL else "0"
        for tensor in captured.inputs
        if tensor.dtype is DType.BOOL or held.get(tensor.path) == ZERO_OR_ONE
    }
    entry = EntryTrials(
        entry_point=name,
        rtol=tolerance.rtol if tolerance else 0.0,
        atol=tolerance.atol if tolerance else 0.0,
        fills=fills,
        held=tuple(path for path in own if own[path] == "true" or path in fills),
        masks=masks,
        lengths={pad.length: dimension for dimension, pad in pads.items() if pad.length},
        ranges=held,
        marks={path: fill for path, fill in own.items() if path not in {*fills, *masks}},
    )
    relations = [parse_relation(text) for text in spec.relations]
    accepted = {dimension: known.accepted for dimension, known in dimensions.items()}
    sizes = [dict(each) for each in profiles]
    floats = {tensor.path for tensor in captured.inputs if trial_run.is_float(tensor.dtype)}
    may_be_nan = floats - {*spec.by_loader, *spec.fixtures.ranges}
    rows = trial_inputs.SPECIAL_ROWS if may_be_nan and spec.numerics != "finite" else ()
    planner = _Planner(captured, entry, sorted(pads), accepted, relations, sizes, rows)
    planned = [
        Trial(planner.call(each, kind)) for each in sizes for kind in (FIXTURE, *trial_inputs.KINDS)
    ]
    planned += planner.padding_trials()
    for dimension, policy in spec.out_of_profile.items():
        if isinstance(at_once(policy), Split):
            planned += [*planner.split(dimension), *planner.beside(dimension)]
    return replace(entry, trials=tuple(planned))


def ranges(
    inputs: Sequence[TensorSpec], spec: EntryPointSpec, fixtures: Iterable[Mapping[str, Array]]
) -> dict[str, tuple[int, int]]:
    """Map paths of integers to the smallest and largest numbers that they hold.

    These are the manifest's range, or else that of the fixtures (`fixtures` maps paths to inputs),
    which are then recorded or come from a function: an index beyond its table gives NaN. Inputs
    whose numbers are all alike are left out, as they prove nothing of others.
    """
    stated = spec.fixtures.ranges
    integers = {
        each.path
        for each in inputs
        if not (trial_run.is_float(each.dtype) or each.dtype is DType.BOOL or each.key_impl)
    }
    found = {p: (int(stated[p][0]), int(stated[p][1])) for p in integers & stated.keys()}
    left = integers - found.keys()
    for arrays in fixtures if left else ():
        for path in left:
            if arrays[path].size:
                numbers = (int(arrays[path].min()), int(arrays[path].max()))
                low, high = found.get(path, numbers)
                found[path] = (min(low, numbers[0]), max(high, numbers[1]))
    return {path: (low, high) for path, (low, high) in sorted(found.items()) if low < high}


def trial_leaves(
    inputs: Sequence[TensorSpec], spec: EntryPointSpec, fixture: Mapping[str, Array]
) -> list[trial_inputs.TrialLeaf]:
    """Describe inputs for other numbers than those of a fixture, which has them by path."""
    fills = {path: fill for pad in spec.pads.values() for path, fill in pad.fill.items()}
    declared, is_recorded = spec.leaves, spec.fixtures.file is not None
    return [
        trial_inputs.TrialLeaf(
            path=path,
            sample=fixture[path],
            bounds=spec.fixtures.ranges.get(path),
            is_key=tensor.key_impl is not None,
            is_fixed=path in spec.by_loader,
            is_recorded=isinstance(declared.get(path), InputLeaf) and is_recorded,
            is_made=not isinstance(declared.get(path), InputLeaf),
            fill=fill_value(fills.get(path, "0"), tensor.dtype),
            fixed_axes=tuple(not parse_expression(axis).names() for axis in tensor.shape),
        )
        for tensor in inputs
        for path in [tensor.path]
    ]
