"""Which dimensions the axes of inputs and outputs carry: by symbolic shapes, or else by trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from aotc.capture import axis_expressions, random_keys, trace_refusals
from aotc.capture.call_arguments import FlatCall
from aotc.capture.symbolic_trace import CallAt, Symbolic
from aotc.config.build_manifest import DimensionSpec
from aotc_runtime.schema.size_expressions import parse_expression

type Axes = tuple[int | str, ...]


class Shapes(NamedTuple):
    """The shapes of a module's inputs, without weights, and of its outputs, in leaf order."""

    inputs: tuple[tuple[Any, ...], ...]
    outputs: tuple[tuple[Any, ...], ...]


class Traced(NamedTuple):
    """One tracing of a function: the sizes, the shapes, the abstract results."""

    sizes: Mapping[str, int]
    shapes: Shapes
    outputs: Any


class LeafAxes(NamedTuple):
    """Each leaf's axes: sizes, expressions over dimensions, or "?"."""

    inputs: list[Axes]
    outputs: list[Axes]


def shapes_of(call: FlatCall, outputs: Any) -> Shapes:
    """The shapes of a call and its abstract results."""
    return Shapes(
        tuple(tuple(leaf.data.shape) for leaf in call.leaves if not leaf.is_weight),
        tuple(tuple(random_keys.data_aval(leaf).shape) for leaf in jax.tree.leaves(outputs)),
    )


def find(
    symbolic: Symbolic,
    profiles: Sequence[Traced],
    dimensions: Mapping[str, DimensionSpec],
    call_at: CallAt,
) -> LeafAxes:
    """The axes of all leaves. symbolic: used if it gives the right sizes at every profile.

    dimensions: those of the entry point, in the order of its profiles.
    """
    if symbolic.shapes is not None:
        found = LeafAxes(*symbolic.shapes)
        if all(_holds(found, profile) for profile in profiles):
            return found
    return _by_trial(profiles, dimensions, call_at)


def _holds(found: LeafAxes, profile: Traced) -> bool:
    pairs = zip(
        (*found.inputs, *found.outputs),
        (*profile.shapes.inputs, *profile.shapes.outputs),
        strict=True,
    )
    return all(
        axis == "?" or parse_expression(axis).value(profile.sizes) == size
        for written, shape in pairs
        for axis, size in zip(written, shape, strict=True)
    )


def _by_trial(
    profiles: Sequence[Traced], dimensions: Mapping[str, DimensionSpec], call_at: CallAt
) -> LeafAxes:
    """The axes, from their sizes at every profile and at the corners of a box within the ranges.

    A corner where the function cannot be evaluated, or gives another structure, is left out; axes
    that cannot be determined without it become "?".
    """
    names = tuple(dimensions)
    at_points = {tuple(p.sizes[name] for name in names): p.shapes for p in profiles}
    box = {
        name: _ends(sorted({p.sizes[name] for p in profiles}), known)
        for name, known in dimensions.items()
    }
    for corner in axis_expressions.corners(box):
        if corner in at_points:
            continue
        try:
            call = call_at(dict(zip(names, corner, strict=True)))
            outputs = jax.eval_shape(call, *(leaf.data for leaf in call.leaves))
            is_alike = trace_refusals.signature(outputs, "") == trace_refusals.signature(
                profiles[0].outputs, ""
            )
        except Exception:  # noqa: BLE001 - sizes between profiles need not work in the user's code
            continue
        if is_alike:
            at_points[corner] = shapes_of(call, outputs)

    def axes_of(kind: int, leaf: int, rank: int) -> Axes:
        return tuple(
            axis_expressions.expression(
                names, box, {p: s[kind][leaf][axis] for p, s in at_points.items()}
            )
            for axis in range(rank)
        )

    def all_axes(kind: int) -> list[Axes]:
        first = profiles[0].shapes[kind]
        return [axes_of(kind, leaf, len(shape)) for leaf, shape in enumerate(first)]

    return LeafAxes(all_axes(0), all_axes(1))


def _ends(sizes: Sequence[int], known: DimensionSpec) -> tuple[int, int]:
    """Two accepted sizes to compare, or the only one twice."""
    low, high = sizes[0], sizes[-1]
    if low < high:
        return low, high
    step = known.accepted.multiple_of
    if low + step in known.accepted:
        return low, low + step
    return max(low - step, known.accepted.smallest), low
