"""One trial: inputs padded or cut into pieces, executed, and the results cut back or joined.

The functions that do so are those of the loader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from aotc.shapes.fills import fill_of
from aotc.shapes.trials import DECLARED, EntryTrials, PlannedTrial, Sizes
from aotc_runtime.schema.expressions import parse_expression
from aotc_runtime.schema.manifest import TensorSpec
from aotc_runtime.serving.readiness import Difference, compare, over_all
from aotc_runtime.serving.routing.padding import cut, mask, pad
from aotc_runtime.serving.routing.splitting import axis_of, join, piece

type Array = np.ndarray[Any, Any]

type Execute = Callable[[Sizes, list[Array]], list[Array]]
"""From the sizes of a profile and its input leaves to its output leaves."""


class Call(Struct, frozen=True):
    """A call of exactly some sizes. inputs, expected: in leaf order, the latter by plain JAX."""

    inputs: list[Array]
    expected: list[Array]


def shape_at(spec: TensorSpec, sizes: Sizes) -> tuple[int, ...]:
    """The shape of a leaf at these sizes. Raises ValueError for an axis that nobody can tell."""
    return tuple(parse_expression(axis).value(sizes) for axis in spec.shape)


def run(
    trial: PlannedTrial,
    entry: EntryTrials,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    call: Call,
    execute: Execute,
) -> Difference:
    """Try it and compare."""
    results = (
        [_padded(trial, entry, inputs, outputs, call.inputs, execute)]
        if trial.fill
        else _split(trial, entry, inputs, outputs, call.inputs, execute)
    )
    found = [
        (spec.path, compare(np.asarray(actual), expected, entry.rtol, entry.atol))
        for arrays in results
        for spec, actual, expected in zip(outputs, arrays, call.expected, strict=True)
    ]
    return over_all(found)


def _padded(
    trial: PlannedTrial,
    entry: EntryTrials,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    leaves: Sequence[Array],
    execute: Execute,
) -> list[Array]:
    (profile,) = trial.profiles
    given: list[Array] = []
    for index, (spec, leaf) in enumerate(zip(inputs, leaves, strict=True)):
        shape = shape_at(spec, profile)
        is_padded = shape != leaf.shape
        fill = fill_of(entry, index, spec.dtype, trial.fill)
        given.append(pad(leaf, shape, fill) if is_padded else leaf)
    _supply(given, entry, inputs, trial.sizes, profile)
    results = execute(profile, given)
    return [cut(r, shape_at(s, trial.sizes)) for s, r in zip(outputs, results, strict=True)]


def _split(
    trial: PlannedTrial,
    entry: EntryTrials,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    leaves: Sequence[Array],
    execute: Execute,
) -> list[list[Array]]:
    """The joined results; once more for each further part with that part's own copy of the outputs
    that do not carry the dimension, since a call returns only one of them.
    """
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
        results = _padded(part, entry, inputs, outputs, pieces, execute)
        parts.append([np.asarray(result) for result in results])
        start += size
    axes = [axis_of(spec.shape, dimension) for spec in outputs]
    joined = [join([part[index] for part in parts], axis) for index, axis in enumerate(axes)]
    return [
        [array if axis is not None else part[index] for index, (axis, array) in pairs]
        for part in parts
        for pairs in [list(enumerate(zip(axes, joined, strict=True)))]
    ]


def _supply(
    leaves: list[Array],
    entry: EntryTrials,
    inputs: Sequence[TensorSpec],
    real: Sizes,
    profile: Sizes,
) -> None:
    """What the loader passes by itself."""
    for leaf, dimensions in entry.masks.items():
        axes, shape = inputs[leaf].shape, shape_at(inputs[leaf], profile)
        leaves[leaf] = mask(axes, shape, {name: real[name] for name in dimensions})
    for leaf, dimension in entry.lengths.items():
        leaves[leaf] = np.asarray(real[dimension], leaves[leaf].dtype)
