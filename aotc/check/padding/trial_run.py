"""Runs one trial: inputs are padded or split, executed, and the results cut back or joined.

It uses the loader's own functions.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from aotc.check.padding.trial_records import DECLARED, EntryTrials, PlannedTrial, Sizes, fill_of
from aotc_runtime.schema.bundle_manifest import TensorSpec
from aotc_runtime.schema.size_expressions import parse_expression
from aotc_runtime.serving.readiness import Difference, compare, over_all
from aotc_runtime.serving.routing.joined_rows import row_part, stacked, stacked_mask
from aotc_runtime.serving.routing.padded_arrays import cut, mask, pad
from aotc_runtime.serving.routing.padding_masks import Mask
from aotc_runtime.serving.routing.split_calls import axis_of, join, piece

type Array = np.ndarray[Any, Any]


class Call(Struct, frozen=True):
    """A call of exactly some sizes: inputs and plain JAX's results, in leaf order."""

    inputs: list[Array]
    expected: list[Array]


def shape_at(spec: TensorSpec, sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of a leaf at these sizes; raises ValueError for an axis of unknown size."""
    return tuple(parse_expression(axis).value(sizes) for axis in spec.shape)


class Subject(NamedTuple):
    """An executable or plain JAX, as trials run an entry point on it.

    `inputs` and `outputs` are its leaves; `execute` maps a profile's sizes and inputs to outputs.
    """

    entry: EntryTrials
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    execute: Callable[[Sizes, list[Array]], list[Array]]


def run(trial: PlannedTrial, subject: Subject, call: Call) -> Difference:
    """Try it and compare."""
    if trial.beside:
        results = _beside(trial, subject, call.inputs)
    elif trial.fill:
        results = [_padded(trial, subject, call.inputs)]
    else:
        results = _split(trial, subject, call.inputs)
    entry, _, outputs, _ = subject
    found = [
        (spec.path, compare(np.asarray(actual), expected, entry.rtol, entry.atol))
        for arrays in results
        for spec, actual, expected in zip(outputs, arrays, call.expected, strict=True)
    ]
    return over_all(found)


def _padded(trial: PlannedTrial, subject: Subject, leaves: Sequence[Array]) -> list[Array]:
    entry, inputs, outputs, execute = subject
    (profile,) = trial.profiles
    given: list[Array] = []
    for index, (spec, leaf) in enumerate(zip(inputs, leaves, strict=True)):
        shape = shape_at(spec, profile)
        is_padded = shape != leaf.shape
        fill = fill_of(entry, index, spec.dtype, trial.fill)
        given.append(pad(leaf, shape, fill) if is_padded else leaf)
    # What the loader passes by itself.
    for index, dimensions in entry.masks.items():
        axes, shape = inputs[index].shape, shape_at(inputs[index], profile)
        given[index] = mask(axes, shape, {name: trial.sizes[name] for name in dimensions})
    for index, dimension in entry.lengths.items():
        given[index] = np.asarray(trial.sizes[dimension], given[index].dtype)
    results = execute(profile, given)
    return [cut(r, shape_at(s, trial.sizes)) for s, r in zip(outputs, results, strict=True)]


def _split(trial: PlannedTrial, subject: Subject, leaves: Sequence[Array]) -> list[list[Array]]:
    """Return the joined results, once for each part with its copy of undivided outputs.

    These do not carry the dimension, and a call returns only one of them.
    """
    _, inputs, outputs, _ = subject
    (dimension,) = trial.dimensions
    parts: list[list[Array]] = []
    start = 0
    for profile in trial.profiles:
        size = profile[dimension]
        part = replace(
            trial, sizes={**trial.sizes, dimension: size}, profiles=(profile,), fill=DECLARED
        )
        pieces = [
            leaf
            if (axis := axis_of(spec.shape, dimension)) is None
            else piece(leaf, axis, start, start + size)
            for spec, leaf in zip(inputs, leaves, strict=True)
        ]
        results = _padded(part, subject, pieces)
        parts.append([np.asarray(result) for result in results])
        start += size
    axes = [axis_of(spec.shape, dimension) for spec in outputs]
    joined = [join([part[index] for part in parts], axis) for index, axis in enumerate(axes)]
    return [
        [array if axis is not None else part[index] for index, (axis, array) in pairs]
        for part in parts
        for pairs in [list(enumerate(zip(axes, joined, strict=True)))]
    ]


def _beside(trial: PlannedTrial, subject: Subject, leaves: Sequence[Array]) -> list[list[Array]]:
    """Return the results of the call before and behind rows of other calls.

    Those are as long as the profile, and as short as they may be.
    """
    entry, inputs, outputs, execute = subject
    (dimension,), (profile,) = trial.dimensions, trial.profiles
    rest = {dimension: profile[dimension] - trial.sizes[dimension]}
    found: list[list[Array]] = []
    for other in ({**profile, **rest}, {**profile, **trial.beside, **rest}):
        if all(other[name] == trial.sizes[name] for name in trial.beside):
            continue  # one more call of the same sizes
        others = [
            _resized(leaf, shape_at(spec, other)) for spec, leaf in zip(inputs, leaves, strict=True)
        ]
        calls = [(trial.sizes, leaves), (other, others)]
        for start, ordered in ((0, calls), (rest[dimension], calls[::-1])):
            given: list[Array] = []
            for index, spec in enumerate(inputs):
                shape = shape_at(spec, profile)
                if index in entry.lengths:
                    given.append(leaves[index])  # of a dimension in which all are alike
                elif index in entry.masks:
                    mask = Mask(index, spec.shape, frozenset(entry.masks[index]))
                    given.append(stacked_mask(mask, [s for s, _ in ordered], dimension, shape))
                else:
                    axis = spec.shape.index(dimension)
                    fill = fill_of(entry, index, spec.dtype, trial.fill)
                    given.append(stacked([each[index] for _, each in ordered], axis, shape, fill))
            results = execute(profile, given)
            found.append(
                [
                    row_part(np.asarray(result), spec.shape.index(dimension), start, shape)
                    for spec, result in zip(outputs, results, strict=True)
                    for shape in [shape_at(spec, trial.sizes)]
                ]
            )
    return found


def _resized(leaf: Array, shape: Sequence[int]) -> Array:
    """Return an array of this shape with the same numbers, reordered if its size differs."""
    for axis, size in enumerate(shape):
        if size != leaf.shape[axis]:
            leaf = np.take(leaf, -1 - np.arange(size) % leaf.shape[axis], axis)
    return leaf
