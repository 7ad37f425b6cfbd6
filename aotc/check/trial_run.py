"""Runs one trial: inputs are padded or split, executed, and the results cut back or joined.

It uses the loader's own functions.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from aotc.check.trial_inputs import ENDS, SPECIAL_ROWS
from aotc.check.trial_records import Array, EntryTrials, Sizes, Trial
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType, TensorSpec
from aotc_runtime.schema.size_expressions import parse_expression
from aotc_runtime.serving.readiness import Difference, compare, over_all
from aotc_runtime.serving.routing.joined_rows import row_part, stack, stack_mask
from aotc_runtime.serving.routing.padded_arrays import cut, fill_value, mask, pad
from aotc_runtime.serving.routing.padding_masks import Mask
from aotc_runtime.serving.routing.split_calls import axis_of, join, piece

DECLARED = "declared"

ABOUT_FLOATS = ("nan", "inf")
LARGEST, SMALLEST = "largest", "smallest"
ABOUT_NUMBERS = (LARGEST, SMALLEST, "ones")
"""Fills of padding besides the declared ones: a padding leak shows."""


def is_float(dtype: DType) -> bool:
    """Return whether it has NaN and infinity: floats and complex numbers."""
    return dtype.value.startswith(("float", "bfloat", "complex"))


def fill_of(entry: EntryTrials, path: str, dtype: DType, fill: str) -> Array:
    """Return what pads an input in trials with this kind of fill: a 0-d array.

    NaN and infinity are used for floats only, with declared fills in other arrays.
    """
    is_other = fill in ABOUT_FLOATS and not is_float(dtype)
    if fill == DECLARED or is_other or path in entry.held:
        return fill_value(entry.fills.get(path, "0"), dtype)
    numpy = numpy_dtype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(_number(fill, dtype, numpy, entry.ranges.get(path))).astype(numpy)


def _number(fill: str, dtype: DType, numpy: np.dtype[Any], bounds: tuple[int, int] | None) -> Any:
    if fill in ABOUT_FLOATS:
        return float(fill)
    if fill == "ones":
        low, high = bounds or (1, 1)
        return 1 if low <= 1 <= high else (low + high) // 2
    if bounds is None and dtype is DType.BOOL:
        return fill == LARGEST
    if bounds is None:
        part = {"complex64": np.dtype("float32"), "complex128": np.dtype("float64")}
        finfo = ml_dtypes.finfo if is_float(dtype) else ml_dtypes.iinfo
        info = finfo(part.get(dtype.value, numpy))
        bounds = info.min, info.max
    return bounds[fill == LARGEST]


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


def run(trial: Trial, subject: Subject, leaves: list[Array]) -> list[list[Array]]:
    """Return the results of a call with these inputs, of each way in which it was made."""
    if trial.beside:
        return _beside(trial, subject, leaves)
    if trial.fill:
        (profile,) = trial.profiles
        return [_run_padded(subject, leaves, trial.call.sizes, profile, trial.fill)]
    if trial.profiles:
        return _split(trial, subject, leaves)
    return [subject.execute(trial.call.sizes, leaves)]


def difference(
    trial: Trial,
    results: Sequence[Sequence[Array]],
    expected: Sequence[Array],
    outputs: Sequence[TensorSpec],
    rtol: float,
    atol: float,
) -> Difference:
    """Return how far the results of a trial are from those of plain JAX.

    Those of a row with NaN or infinity are left out: what plain JAX makes of it depends on how many
    there are, and the trial is about the others. So are those of a first half at the ends.
    """
    odd = int(trial.call.inputs in SPECIAL_ROWS)
    if trial.call.inputs in ENDS and not trial.fill:
        odd = trial.call.sizes[trial.dimensions[0]] // 2
    return over_all(
        [
            (spec.path, compare(_others(actual, axis, odd), _others(wanted, axis, odd), rtol, atol))
            for arrays in results
            for spec, actual, wanted in zip(outputs, arrays, expected, strict=True)
            for axis in [axis_of(spec.shape, trial.dimensions[0]) if odd else None]
        ]
    )


def _others(array: Array, axis: int | None, odd: int) -> Array:
    """Return all along an axis but the odd ones, the first; all without an axis."""
    array = np.asarray(array)
    return array if axis is None else piece(array, axis, odd, array.shape[axis])


def with_first_half(leaf: Array, other: Array, axis: int | None) -> Array:
    """Return a leaf with the first half of another along an axis; as it is without an axis."""
    if axis is None:
        return leaf
    half, size = leaf.shape[axis] // 2, leaf.shape[axis]
    return join([piece(other, axis, 0, half), piece(leaf, axis, half, size)], axis)


def _run_padded(
    subject: Subject, leaves: Sequence[Array], sizes: Sizes, profile: Sizes, kind: str
) -> list[Array]:
    entry, inputs, outputs, execute = subject
    given: list[Array] = []
    for spec, leaf in zip(inputs, leaves, strict=True):
        shape = shape_at(spec, profile)
        # Masks and lengths are what the loader passes by itself.
        if spec.path in entry.masks:
            real = {name: sizes[name] for name in entry.masks[spec.path]}
            given.append(mask(spec.shape, shape, real))
        elif spec.path in entry.lengths:
            given.append(np.asarray(sizes[entry.lengths[spec.path]], leaf.dtype))
        elif shape != leaf.shape:
            given.append(pad(leaf, shape, fill_of(entry, spec.path, spec.dtype, kind)))
        else:
            given.append(leaf)
    results = execute(profile, given)
    return [cut(r, shape_at(s, sizes)) for s, r in zip(outputs, results, strict=True)]


def _split(trial: Trial, subject: Subject, leaves: Sequence[Array]) -> list[list[Array]]:
    """Return the joined results, once for each part with its copy of undivided outputs.

    These do not carry the dimension, and a call returns only one of them.
    """
    _, inputs, outputs, _ = subject
    (dimension,) = trial.dimensions
    parts: list[list[Array]] = []
    start = 0
    for profile in trial.profiles:
        size = profile[dimension]
        pieces = [
            leaf
            if (axis := axis_of(spec.shape, dimension)) is None
            else piece(leaf, axis, start, start + size)
            for spec, leaf in zip(inputs, leaves, strict=True)
        ]
        sizes = {**trial.call.sizes, dimension: size}
        results = _run_padded(subject, pieces, sizes, profile, DECLARED)
        parts.append([np.asarray(result) for result in results])
        start += size
    axes = [axis_of(spec.shape, dimension) for spec in outputs]
    joined = [join([part[index] for part in parts], axis) for index, axis in enumerate(axes)]
    return [[p[i] if axis is None else joined[i] for i, axis in enumerate(axes)] for p in parts]


def _beside(trial: Trial, subject: Subject, leaves: Sequence[Array]) -> list[list[Array]]:
    """Return the results of the call before and behind rows of other calls.

    Those are as long as the profile, and as short as they may be.
    """
    entry, inputs, outputs, execute = subject
    (dimension,), (profile,) = trial.dimensions, trial.profiles
    rest = {dimension: profile[dimension] - trial.call.sizes[dimension]}
    found: list[list[Array]] = []
    for other in ({**profile, **rest}, {**profile, **trial.beside, **rest}):
        if all(other[name] == trial.call.sizes[name] for name in trial.beside):
            continue  # one more call of the same sizes
        others = [
            _resize(leaf, shape_at(spec, other)) for spec, leaf in zip(inputs, leaves, strict=True)
        ]
        calls = [(trial.call.sizes, leaves), (other, others)]
        for start, ordered in ((0, calls), (rest[dimension], calls[::-1])):
            given: list[Array] = []
            for index, spec in enumerate(inputs):
                shape = shape_at(spec, profile)
                if spec.path in entry.lengths:
                    given.append(leaves[index])  # of a dimension in which all are alike
                elif spec.path in entry.masks:
                    rows = Mask(index, spec.shape, frozenset(entry.masks[spec.path]))
                    given.append(stack_mask(rows, [s for s, _ in ordered], dimension, shape))
                else:
                    axis = spec.shape.index(dimension)
                    fill = fill_of(entry, spec.path, spec.dtype, trial.fill)
                    given.append(stack([each[index] for _, each in ordered], axis, shape, fill))
            results = execute(profile, given)
            found.append(
                [
                    row_part(np.asarray(result), spec.shape.index(dimension), start, shape)
                    for spec, result in zip(outputs, results, strict=True)
                    for shape in [shape_at(spec, trial.call.sizes)]
                ]
            )
    return found


def _resize(leaf: Array, shape: Sequence[int]) -> Array:
    """Return an array of this shape with the same numbers, reordered if its size differs."""
    for axis, size in enumerate(shape):
        if size != leaf.shape[axis]:
            leaf = np.take(leaf, -1 - np.arange(size) % leaf.shape[axis], axis)
    return leaf
