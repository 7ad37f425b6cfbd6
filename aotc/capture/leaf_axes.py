"""The dimensions that the axes of inputs and outputs carry: by symbolic shapes, or else by trial.

By trial, a size that is multilinear in the dimensions (`batch`, `2*seq+1`, `batch*seq`) is
recovered exactly from its values at the corners of a box and checked at every profile; anything
else is "?".
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import jax

from aotc.capture import random_keys, trace_refusals
from aotc.capture.call_arguments import FlatCall
from aotc.capture.symbolic_trace import CallAt, Symbolic, expression_text
from aotc.config.build_manifest import DimensionSpec
from aotc_runtime.schema.size_expressions import Expression, parse_expression

type Axes = tuple[int | str, ...]
"""Sizes, expressions over dimensions, or "?"."""

type Point = tuple[int, ...]


class Shapes(NamedTuple):
    """The shapes of a module's inputs, without weights, and of its outputs, in leaf order."""

    inputs: tuple[tuple[Any, ...], ...]
    outputs: tuple[tuple[Any, ...], ...]


class Traced(NamedTuple):
    """One tracing of a function: sizes, shapes and abstract results."""

    sizes: Mapping[str, int]
    shapes: Shapes
    outputs: Any


def shapes_of(call: FlatCall, outputs: Any) -> Shapes:
    """Return the shapes of a call and its abstract results."""
    return Shapes(
        tuple(tuple(leaf.data.shape) for leaf in call.leaves if not leaf.is_weight),
        tuple(tuple(random_keys.data_aval(leaf).shape) for leaf in jax.tree.leaves(outputs)),
    )


def find(
    symbolic: Symbolic,
    profiles: Sequence[Traced],
    dimensions: Mapping[str, DimensionSpec],
    call_at: CallAt,
) -> tuple[list[Axes], list[Axes]]:
    """Return the axes of inputs and outputs; `symbolic` is used if it gives all profiles' sizes.

    `dimensions` are those of the entry point, in the order of its profiles.
    """
    found = symbolic.shapes
    if found is not None and all(_holds([*found[0], *found[1]], each) for each in profiles):
        return found
    return _by_trial(profiles, dimensions, call_at)


def _holds(axes: Sequence[Axes], profile: Traced) -> bool:
    pairs = zip(axes, (*profile.shapes.inputs, *profile.shapes.outputs), strict=True)
    return all(
        axis == "?" or parse_expression(axis).value(profile.sizes) == size
        for written, shape in pairs
        for axis, size in zip(written, shape, strict=True)
    )


def _by_trial(
    profiles: Sequence[Traced], dimensions: Mapping[str, DimensionSpec], call_at: CallAt
) -> tuple[list[Axes], list[Axes]]:
    """Derive axes from their sizes at every profile and at corners of a box in the ranges.

    A corner where the function cannot be evaluated, or gives another structure, is left out; axes
    of results that cannot be determined without it become "?". Inputs need no evaluation, and may
    have sizes that are not accepted: with one size, an axis would look like a constant.
    """
    names = tuple(dimensions)
    at_points = {tuple(p.sizes[name] for name in names): p.shapes for p in profiles}
    given = {point: shapes.inputs for point, shapes in at_points.items()}
    made = {point: shapes.outputs for point, shapes in at_points.items()}
    box = {
        name: _ends(sorted({p.sizes[name] for p in profiles}), known)
        for name, known in dimensions.items()
    }
    wide = {
        name: ends if ends[0] < ends[1] else (ends[0], ends[0] + dimensions[name].multiple_of)
        for name, ends in box.items()
    }
    inside = set(corners(box))
    for corner in corners(wide):
        try:
            call = call_at(dict(zip(names, corner, strict=True)))
            given[corner] = shapes_of(call, ()).inputs
            if corner in made or corner not in inside:
                continue
            outputs = jax.eval_shape(call, *(leaf.data for leaf in call.leaves))
            is_alike = trace_refusals.signature(outputs, "") == trace_refusals.signature(
                profiles[0].outputs, ""
            )
        except Exception:  # noqa: BLE001 - sizes between profiles need not work in the user's code
            continue
        if is_alike:
            made[corner] = shapes_of(call, outputs).outputs

    def axes_of(
        box: Mapping[str, tuple[int, int]], shapes: Mapping[Point, Sequence[Any]]
    ) -> list[Axes]:
        return [
            tuple(
                expression(names, box, {point: each[leaf][axis] for point, each in shapes.items()})
                for axis in range(len(shape))
            )
            for leaf, shape in enumerate(next(iter(shapes.values())))
        ]

    return axes_of(wide, given), axes_of(box, made)


def _ends(sizes: Sequence[int], known: DimensionSpec) -> tuple[int, int]:
    """Return two accepted sizes to compare, or the only one twice."""
    low, high = sizes[0], sizes[-1]
    if low < high:
        return low, high
    step = known.accepted.multiple_of
    if low + step in known.accepted:
        return low, low + step
    return max(low - step, known.accepted.smallest), low


def corners(values: Mapping[str, tuple[int, int]]) -> list[Point]:
    """Return the corners of a box, given two values for each dimension, which may be equal."""
    return sorted(set(product(*values.values())))


def expression(
    dimensions: Sequence[str], box: Mapping[str, tuple[int, int]], sizes: Mapping[Point, int]
) -> int | str:
    """Return the size of one axis as an integer or an expression over the dimensions.

    `box` has two values for each dimension (equal if it cannot vary), in order. `sizes` has the
    axis's size at every corner of the box and any further points, which must agree with the result;
    "?" if they do not, or if a corner is missing.
    """
    if any(corner not in sizes for corner in corners(box)):
        return "?"
    found = _terms(tuple(box.items()), (), sizes)
    if any(value.denominator != 1 for value in found.values()):
        return "?"
    terms = Expression(tuple((int(value), names) for names, value in found.items() if value))
    for point, size in sizes.items():
        if terms.value(dict(zip(dimensions, point, strict=True))) != size:
            return "?"
    return expression_text(terms) if terms.names() else terms.value({})


def _terms(
    box: tuple[tuple[str, tuple[int, int]], ...], point: Point, sizes: Mapping[Point, int]
) -> dict[tuple[str, ...], Fraction]:
    """Return coefficients of products of dimensions, the first of which have a point's sizes."""
    if not box:
        return {(): Fraction(sizes[point])}
    (name, (low, high)), *rest = box
    below = _terms((*rest,), (*point, low), sizes)
    if low == high:
        return below
    above = _terms((*rest,), (*point, high), sizes)
    slopes = {names: (above[names] - value) / (high - low) for names, value in below.items()}
    constants = {names: value - slopes[names] * low for names, value in below.items()}
    return constants | {(name, *names): slope for names, slope in slopes.items()}
