"""Joining requests that wait into one call, along a dimension that was proven to be split.

What the build proved for `split` is what joining needs: the results of the parts, one behind the
other, are the result of the whole. `pad` proves less: that what lies behind the real rows does not
change them, which also holds where rows depend on those before them (a running sum), and such rows
must not stand behind other requests'. So dimensions that are padded are not joined along. Requests
may differ in them where trials of the split have shown that calls of other sizes beside it change
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.bundle_manifest import (
    EntryPoint,
    OutOfProfilePolicy,
    Pad,
    ProfileRecord,
    Split,
)
from aotc_runtime.schema.fallback_policies import policies_of, without_compiling
from aotc_runtime.schema.size_expressions import parse_relation
from aotc_runtime.serving.routing.call_sizes import Shapes, shapes_at, solve
from aotc_runtime.serving.routing.joined_rows import (
    mixable,
    own_axis,
    row_part,
    stack,
    stack_mask,
)
from aotc_runtime.serving.routing.padded_arrays import declared_fills
from aotc_runtime.serving.routing.padding_masks import Length, Mask, masks_of
from aotc_runtime.serving.routing.router import Direct, router_of
from aotc_runtime.serving.routing.split_calls import piece
from aotc_serve.inference.protocol_tensors import Array
from aotc_serve.inference.served_models import Masks, Model

Others = tuple[tuple[str, int], ...]
"""The sizes in which requests have to be alike to be joined, by dimension."""

CALL_COST = 100_000
"""Fixed cost of a call, in operations: those of some 20 µs on one core."""

WORTH = 0.8
"""Requests are joined where one call costs at most so much of what they cost alone: two changes of
thread and the wait for others cost more than a small saving.
"""

KNOWN_MOST = 4096
"""Shapes, and sizes of calls, that are remembered with what they cost."""


class Plan(Struct, frozen=True):
    """The batching of a model's requests along one `dimension`.

    `inputs` and `outputs` have the axis of each, `largest` is the greatest joined size, and `mixed`
    lists padded dimensions in which requests of one call may differ.
    """

    dimension: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    largest: int
    mixed: tuple[str, ...] = ()


class Sized(Struct, frozen=True):
    """The sizes of a request: `rows` along the joined dimension, `mixed` in the plan's others."""

    rows: int
    mixed: tuple[int, ...]
    others: Others

    def sizes(self, plan: Plan) -> dict[str, int]:
        """Return the sizes by dimension."""
        mixed = zip(plan.mixed, self.mixed, strict=True)
        return dict(sorted([*self.others, *mixed, (plan.dimension, self.rows)]))


def plan_of(model: Model) -> Plan | None:
    """Return the plan of a model; None if none of its dimensions was proven to be split."""
    spec = model.entry_point.spec
    passed = [spec.inputs[leaf] for leaf in model.entry_point.passed]
    donates = any(parameter.donated for parameter in spec.parameters)
    for dimension, policy in sorted(without_compiling(spec).items()):
        if not isinstance(policy, Split) or not policy.proof or donates:
            continue
        axes = [own_axis(tensor, dimension) for tensor in (*passed, *spec.outputs)]
        known = [axis for axis in axes if axis is not None]
        if len(known) == len(axes) and passed:
            largest = max(profile.sizes[dimension] for profile in spec.profiles)
            inputs, outputs = known[: len(passed)], known[len(passed) :]
            mixed = _mixable(spec, dimension) if any(trial.fill for trial in policy.proof) else ()
            return Plan(dimension, tuple(inputs), tuple(outputs), largest, mixed)
    return None


def reason_alone(model: Model) -> str:
    """Return why no requests of a model are joined; empty if some may be."""
    plan = plan_of(model)
    if plan is not None:
        worth = "a call for several requests saves less than a fifth of what they take alone"
        return "" if Chooser(model, plan).is_worth_it else worth
    if any(parameter.donated for parameter in model.entry_point.spec.parameters):
        return "calls take inputs that are donated"
    return "no dimension with the policy split is an axis of every input and output"


def _mixable(spec: EntryPoint, dimension: str) -> tuple[str, ...]:
    given = masks_of(spec)
    return mixable(
        spec.inputs,
        spec.outputs,
        dimension,
        [name for name, policy in without_compiling(spec).items() if isinstance(policy, Pad)],
        {each.leaf: each.dimensions for each in given if isinstance(each, Mask)},
        {each.leaf: each.dimension for each in given if isinstance(each, Length)},
    )


class Chooser:
    """Chooses which of the requests that wait one call serves."""

    def __init__(self, model: Model, plan: Plan) -> None:
        spec = model.entry_point.spec
        self._spec, self._plan, self._name = spec, plan, model.entry_point.name
        passed = model.entry_point.passed
        self._tensors = [spec.inputs[leaf] for leaf in passed]
        self._known = [
            tuple(profile.input_shapes[leaf] for leaf in passed) for profile in spec.profiles
        ]
        self._dimension = model.bundle.manifest.dimensions[plan.dimension]
        self._relations = [parse_relation(text) for text in spec.relations]
        now = {
            name: OutOfProfilePolicy.PAD if isinstance(policy, Pad) else OutOfProfilePolicy.SPLIT
            for name, policy in without_compiling(spec).items()
        }
        self._router = router_of(spec.profiles, {**policies_of(spec), **now})
        self._columns = sorted(
            {tuple(profile.sizes[name] for name in plan.mixed) for profile in spec.profiles}
        )
        self._sized: dict[Shapes, Sized | None] = {}
        self._costs: dict[Sized, float | None] = {}

    @property
    def is_worth_it(self) -> bool:
        """Return whether a profile serves several requests for less than they cost alone."""
        return any(
            _cost(profile) <= WORTH * _cost(smaller) * rows / least
            for profile in self._spec.profiles
            for smaller in self._spec.profiles
            for rows, least in [(self._rows(profile), self._rows(smaller))]
            if least < rows and {**profile.sizes, self._plan.dimension: least} == smaller.sizes
        )

    def _rows(self, profile: ProfileRecord) -> int:
        return profile.sizes[self._plan.dimension]

    def measure(self, arrays: Sequence[Array]) -> Sized | None:
        """Return a request's sizes, or None if it does not fit, which its own call reports."""
        shapes = tuple([array.shape for array in arrays])
        if shapes not in self._sized:
            if len(self._sized) >= KNOWN_MOST:
                self._sized.clear()
            self._sized[shapes] = self._solve(shapes)
        return self._sized[shapes]

    def _solve(self, shapes: Shapes) -> Sized | None:
        try:
            sizes = solve(self._name, self._tensors, shapes, self._known)
        except AotcError:
            return None
        plan = self._plan
        rows = sizes.pop(plan.dimension, 0)
        if not rows or not set(plan.mixed) <= sizes.keys():
            return None
        mixed = tuple(sizes.pop(name) for name in plan.mixed)
        return Sized(rows, mixed, tuple(sizes.items()))

    def choose(self, waiting: Sequence[Sized]) -> list[int]:
        """Return the indices of those whose common call saves the largest share of their cost.

        The first is always one of them, and ties take the most. All have the same `others`.
        """
        first = waiting[0]
        best, chosen = float("inf"), [0]
        columns = [each for each in self._columns if _fits(first.mixed, each)]
        for column in columns or [first.mixed]:
            rows, mixed, alone, places = 0, first.mixed, 0.0, list[int]()
            for place, each in enumerate(waiting):
                cost = self._cost_of(each)
                if not _fits(each.mixed, column) or cost is None:
                    if place:
                        continue
                    break
                rows, alone = rows + each.rows, alone + cost
                if places and rows > self._plan.largest:
                    break
                places.append(place)
                mixed = tuple(map(max, mixed, each.mixed))
                together = self._cost_of(Sized(rows, mixed, first.others))
                if together is not None and together / alone <= best:
                    best, chosen = together / alone, list(places)
        return chosen

    def _cost_of(self, sized: Sized) -> float | None:
        """Return a call's cost in operations and bytes, or None if no call has these sizes."""
        if sized not in self._costs:
            if len(self._costs) >= KNOWN_MOST:
                self._costs.clear()
            self._costs[sized] = self._route_cost(sized)
        return self._costs[sized]

    def _route_cost(self, sized: Sized) -> float | None:
        sizes: Mapping[str, int] = sized.sizes(self._plan)
        if sized.rows not in self._dimension:
            return None
        if not all(r.names() <= sizes.keys() and r.holds(sizes) for r in self._relations):
            return None
        route = self._router.choose(sizes)
        if route is None:
            return None
        calls = (route,) if isinstance(route, Direct) else route.calls
        return sum(_cost(self._spec.profiles[call.profile]) for call in calls)


def _cost(profile: ProfileRecord) -> float:
    return CALL_COST + profile.cost.flops + profile.cost.bytes_accessed


def _fits(mixed: Sequence[int], column: Sequence[int]) -> bool:
    return all(size <= most for size, most in zip(mixed, column, strict=True))


def join_inputs(
    model: Model, plan: Plan, requests: Sequence[tuple[Sized, Sequence[Array]]]
) -> tuple[list[Array], Masks]:
    """Return a call's joined arguments, and its masks if the requests' sizes differ."""
    if len({sized.mixed for sized, _ in requests}) == 1:
        arrays = [
            np.concatenate([each[place] for _, each in requests], axis)
            for place, axis in enumerate(plan.inputs)
        ]
        return arrays, None
    spec, calls = model.entry_point.spec, [sized.sizes(plan) for sized, _ in requests]
    whole = {name: max(sizes[name] for sizes in calls) for name in calls[0]}
    whole[plan.dimension] = sum(sized.rows for sized, _ in requests)
    shapes = shapes_at(spec.inputs, spec.profiles[0].input_shapes, whole)
    fills = declared_fills(spec)
    arrays = [
        stack([each[place] for _, each in requests], axis, shapes[leaf], fills[leaf])
        for place, (leaf, axis) in enumerate(
            zip(model.entry_point.passed, plan.inputs, strict=True)
        )
    ]
    masks = {
        mask.leaf: stack_mask(mask, calls, plan.dimension, shapes[mask.leaf])
        for mask in masks_of(spec)
        if isinstance(mask, Mask)
    }
    return arrays, masks


def split(
    model: Model, plan: Plan, results: Sequence[Array], requests: Sequence[Sized]
) -> list[list[Array]]:
    """Return the results of each request."""
    spec = model.entry_point.spec
    found, start = list[list[Array]](), 0
    is_mixed = len({sized.mixed for sized in requests}) > 1
    for sized in requests:
        if is_mixed:
            shapes = shapes_at(spec.outputs, spec.profiles[0].output_shapes, sized.sizes(plan))
            part = [
                row_part(result, axis, start, shape)
                for result, axis, shape in zip(results, plan.outputs, shapes, strict=True)
            ]
        else:
            part = [
                piece(result, axis, start, start + sized.rows)
                for result, axis in zip(results, plan.outputs, strict=True)
            ]
        found.append(part)
        start += sized.rows
    return found
