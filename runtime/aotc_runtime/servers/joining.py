"""Joining requests that wait into one call, along a dimension that was proven to be split.

What the build proved for `split` is what joining needs: the results of the parts, one behind the
other, are the result of the whole. `pad` proves less: that what lies behind the real rows does not
change them, which also holds where rows depend on those before them (a running sum), and such rows
must not stand behind other requests'. So dimensions that are padded are not joined along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from aotc_runtime.schema.expressions import parse_expression, parse_relation
from aotc_runtime.schema.labels import without_compiling
from aotc_runtime.schema.manifest import ProfileRecord, Split, TensorSpec
from aotc_runtime.servers.models import Model
from aotc_runtime.servers.tensors import Array
from aotc_runtime.serving.routing.router import add_up
from aotc_runtime.serving.routing.splitting import axis_of, piece

Others = tuple[tuple[int, ...], ...]
"""The shapes of a request's inputs without the axis that is joined along."""

CALL_COST = 100_000
"""What a call costs beside its work, as operations: some 20 µs, in which a core does so many."""


class Plan(Struct, frozen=True):
    """How a model's requests are joined. dimension: along which.

    inputs, outputs: the axis of each.  largest: what is joined at most.
    """

    dimension: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    largest: int


def plan_of(model: Model) -> Plan | None:
    """The plan of a model; None if none of its dimensions was proven to be split."""
    spec = model.entry_point.spec
    passed = [spec.inputs[leaf] for leaf in model.entry_point.passed]
    donates = any(parameter.donated for parameter in spec.parameters)
    for dimension, policy in sorted(without_compiling(spec).items()):
        if not isinstance(policy, Split) or not policy.proof or donates:
            continue
        axes = [_axis(tensor, dimension) for tensor in (*passed, *spec.outputs)]
        known = [axis for axis in axes if axis is not None]
        if len(known) == len(axes) and passed:
            largest = max(profile.sizes[dimension] for profile in spec.profiles)
            inputs, outputs = known[: len(passed)], known[len(passed) :]
            return Plan(dimension, tuple(inputs), tuple(outputs), largest)
    return None


def _axis(tensor: TensorSpec, dimension: str) -> int | None:
    """The one axis that is the dimension; None if others depend on it, too."""
    using = [
        axis
        for axis in tensor.shape
        if isinstance(axis, str) and (axis == "?" or dimension in parse_expression(axis).names())
    ]
    return axis_of(tensor.shape, dimension) if using == [dimension] else None


def size_of(plan: Plan, arrays: Sequence[Array]) -> tuple[int, Others] | None:
    """A request's size in the dimension, and the rest of its shapes; None for one that does not fit
    the model, and is told so when it is called alone.
    """
    try:
        sizes = {array.shape[axis] for array, axis in zip(arrays, plan.inputs, strict=True)}
    except IndexError:
        return None
    if len(sizes) != 1:
        return None
    others = tuple(
        (*array.shape[:axis], *array.shape[axis + 1 :])
        for array, axis in zip(arrays, plan.inputs, strict=True)
    )
    size = sizes.pop()
    return (size, others) if size else None


class Chooser:
    """Chooses how many of the requests that wait one call serves."""

    def __init__(self, model: Model, plan: Plan) -> None:
        spec = model.entry_point.spec
        self._spec, self._plan = spec, plan
        self._tensors = [spec.inputs[leaf] for leaf in model.entry_point.passed]
        self._profiles: Sequence[ProfileRecord] = spec.profiles
        self._dimension = model.bundle.manifest.dimensions[plan.dimension]

    def count(self, waiting: Sequence[int], others: Others) -> int:
        """How many of the first, of these sizes, make the call that costs least for each row; the
        most, if several do.
        """
        costs = self._costs(others)
        best, chosen, total = float("inf"), 1, 0
        for number, size in enumerate(waiting, start=1):
            total += size
            if number > 1 and (total > self._plan.largest or total not in self._dimension):
                if total > self._plan.largest:
                    break
                continue
            parts = add_up(total, costs)
            if parts is None or not self._keeps_relations(total, others):
                continue
            cost = sum(costs[part] for part in parts) / total
            if cost <= best:
                best, chosen = cost, number
        return chosen

    def _costs(self, others: Others) -> dict[int, int]:
        """What a call costs that a profile serves in the other dimensions' sizes, by its size in
        this one: operations and bytes as the manifest has them, and those of a call.
        """
        found: dict[int, int] = {}
        wanted = self._sizes(others)
        for profile in self._profiles:
            if all(profile.sizes[name] >= size for name, size in wanted.items()):
                size = profile.sizes[self._plan.dimension]
                cost = CALL_COST + profile.cost.flops + profile.cost.bytes_accessed
                found[size] = min(cost, found.get(size, cost))
        return found

    def _sizes(self, others: Others) -> dict[str, int]:
        """The sizes of the other dimensions that are axes by themselves."""
        sizes: dict[str, int] = {}
        for tensor, axis, shape in zip(self._tensors, self._plan.inputs, others, strict=True):
            named = (*tensor.shape[:axis], *tensor.shape[axis + 1 :])
            sizes |= {
                name: size
                for name, size in zip(named, shape, strict=False)
                if isinstance(name, str) and name in self._spec.dimensions
            }
        return sizes

    def _keeps_relations(self, total: int, others: Others) -> bool:
        sizes: Mapping[str, int] = {**self._sizes(others), self._plan.dimension: total}
        relations = [parse_relation(text) for text in self._spec.relations]
        return all(r.names() <= sizes.keys() and r.holds(sizes) for r in relations)


def joined(plan: Plan, requests: Sequence[Sequence[Array]]) -> list[Array]:
    """The arguments of one call for all of them."""
    return [
        np.concatenate([request[place] for request in requests], axis)
        for place, axis in enumerate(plan.inputs)
    ]


def taken_apart(plan: Plan, results: Sequence[Array], sizes: Sequence[int]) -> list[list[Array]]:
    """The results of each request."""
    found, start = [], 0
    for size in sizes:
        found.append(
            [
                piece(result, axis, start, start + size)
                for result, axis in zip(results, plan.outputs, strict=True)
            ]
        )
        start += size
    return found
