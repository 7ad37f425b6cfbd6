"""More inputs for trials, since the numbers of a fixture may hide the errors that trials look for.

A recorded file that is repeated is the same in every part of a split; zeros add nothing to a sum; a
maximum over positive numbers does not see the zeros that a mask puts beside them. So trials are
repeated with other numbers of the same kind: none of them like another, all of them from the lower
half of what the input holds, or all from the upper half; and low beside high ones, since a product
or a difference of two that are alike has one sign only, or any.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aotc.check.padding.trial_records import HIGH, LOW, REVERSED, is_integer
from aotc.config.build_manifest import EntryPointSpec, InputLeaf, InputLike
from aotc_runtime.schema.bundle_manifest import DType, KeyImpl, TensorSpec
from aotc_runtime.schema.size_expressions import parse_expression
from aotc_runtime.serving.routing.padded_arrays import fill_value

type Array = np.ndarray[Any, Any]


def sampled(
    inputs: Mapping[str, Array], tensors: Sequence[TensorSpec], spec: EntryPointSpec, sample: str
) -> dict[str, Array]:
    """Return other inputs of the same shapes and dtypes, always the same ones.

    `inputs` are the fixture's at these sizes, by path, and `tensors` describes them at any sizes.
    `sample` is LOW, HIGH, MIXED or REVERSED. Numbers keep to their range or normal distribution;
    recorded ones, and floats that a `like` function returns, to the smallest and largest of them.
    Integers and keys of a `like` function stay, since they may be positions; so do the inputs that
    the loader passes.

    Booleans of HIGH all hold the opposite of their padding, if they ever do. LOW and HIGH hold the
    edge of an integer's stated range: first along each dimension, everywhere along other axes.
    MIXED has low numbers where the input's place among these paths and the indices along axes that
    carry no dimension add up to an even number, and high ones elsewhere; REVERSED the other way
    round. Both leave edges out, since one that is 0 hides a product's sign.
    """
    declared = spec.leaves
    # Whether an axis carries no dimension.
    axes = {
        each.path: tuple(not parse_expression(axis).names() for axis in each.shape)
        for each in tensors
    }
    other = dict(inputs)
    for place, path in enumerate(sorted(inputs.keys() - spec.by_loader)):
        array, leaf = inputs[path], declared.get(path)
        if sample in (LOW, HIGH):
            other[path] = _other(path, array, leaf, spec, sample)
            if _is_drawn(path, array, leaf, spec):
                edge = spec.fixtures.ranges[path][sample == HIGH]
                first = tuple(slice(None) if is_fixed else 0 for is_fixed in axes[path])
                other[path][first] = int(edge)
        else:
            low, high = (_other(path, array, leaf, spec, half) for half in (LOW, HIGH))
            is_even = _is_even(place + (sample == REVERSED), axes[path], array.shape)
            other[path] = np.where(is_even, low, high)
    return other


def ranges(
    inputs: Sequence[TensorSpec], spec: EntryPointSpec, fixtures: Iterable[Mapping[str, Array]]
) -> dict[str, tuple[int, int]]:
    """Map paths of integers to the smallest and largest numbers that they hold.

    These are the manifest's range, or else that of the fixtures (`fixtures` maps paths to inputs),
    which are then recorded or come from a function: an index beyond its table gives NaN. Inputs
    whose numbers are all alike are left out, as they prove nothing of others.
    """
    stated = spec.fixtures.ranges
    integers = {each.path for each in inputs if is_integer(each.dtype) and not each.key_impl}
    found = {
        path: (int(stated[path][0]), int(stated[path][1])) for path in integers & stated.keys()
    }
    left = integers - found.keys()
    for arrays in fixtures if left else ():
        for path in left:
            if arrays[path].size:
                numbers = (int(arrays[path].min()), int(arrays[path].max()))
                low, high = found.get(path, numbers)
                found[path] = (min(low, numbers[0]), max(high, numbers[1]))
    return {path: (low, high) for path, (low, high) in sorted(found.items()) if low < high}


def _is_even(place: int, is_fixed: Sequence[bool], shape: tuple[int, ...]) -> Array:
    """bool[shape]: whether a place and the indices along fixed axes add up to an even number."""
    indices = np.indices(shape, sparse=True)
    total = sum((i for i, fixed in zip(indices, is_fixed, strict=True) if fixed), np.array(place))
    return np.broadcast_to(total % 2 == 0, shape)


def _is_drawn(
    path: str, array: Array, leaf: InputLeaf | InputLike | None, spec: EntryPointSpec
) -> bool:
    """Return whether it holds integers of a range that the manifest states."""
    return (
        isinstance(leaf, InputLeaf)
        and isinstance(leaf.dtype, DType)
        and is_integer(leaf.dtype)
        and spec.fixtures.file is None
        and path in spec.fixtures.ranges
        and array.size > 0
    )


def _other(
    path: str, array: Array, leaf: InputLeaf | InputLike | None, spec: EntryPointSpec, sample: str
) -> Array:
    generator = np.random.default_rng([spec.fixtures.seed, zlib.crc32(f"{sample} {path}".encode())])
    is_low, is_drawn = sample == LOW, isinstance(leaf, InputLeaf) and spec.fixtures.file is None
    if isinstance(leaf, InputLeaf) and isinstance(leaf.dtype, KeyImpl):
        return np.asarray(generator.integers(0, 1 << 32, array.shape, np.uint32))
    if not array.size:
        return array
    if not array.dtype.name.startswith(("float", "bfloat", "complex")):
        if not isinstance(leaf, InputLeaf):
            return array
        if _is_drawn(path, array, leaf, spec):
            lowest, highest = spec.fixtures.ranges[path]
            low, high = _half(int(lowest), int(highest), is_low)
            drawn = generator.integers(low, high, array.shape, endpoint=True)
            return np.asarray(drawn).astype(array.dtype)
        # Numbers from a file: any of them, from one half of their order.
        values = np.sort(array.ravel())
        if array.dtype != np.bool_:
            middle = (len(values) + 1) // 2
            values = values[:middle] if is_low else values[-middle:]
        elif not is_low and (is_drawn or (~_fill(path, spec) == values).any()):
            # A single false of the caller's hides the false that pads a row from `all`.
            return np.full(array.shape, ~_fill(path, spec))
        return np.asarray(values[generator.integers(0, len(values), array.shape)])
    bounds = spec.fixtures.ranges.get(path) if is_drawn else _bounds(array)
    values = _floats(generator, array.shape, bounds, is_low)
    if array.dtype.name.startswith("complex"):
        values = values + 1j * generator.standard_normal(array.shape)
    return np.asarray(values).astype(array.dtype)


def _fill(path: str, spec: EntryPointSpec) -> np.bool_:
    """Return what pads a boolean input."""
    stated = (pad.fill.get(path) for pad in spec.pads.values())
    return np.bool_(fill_value(next(filter(None, stated), "0"), DType.BOOL))


def _half(low: int, high: int, is_low: bool) -> tuple[int, int]:
    middle = (low + high) // 2
    if low < 0 == middle:
        # Zero is in neither half: what a mask puts beside numbers hides behind it.
        return (low, -1) if is_low else (1, high)
    return (low, middle) if is_low else (min(middle + 1, high), high)


def _bounds(array: Array) -> tuple[float, float] | None:
    """Return the smallest and the largest; None where all are zero, or none is a number."""
    real = np.real(array).astype(np.float64)
    finite = real[np.isfinite(real)]
    if not finite.size or not finite.any():
        return None
    low, high = float(finite.min()), float(finite.max())
    # Numbers that are all alike: between half of it and the whole.
    return (low, high) if low < high else (min(low, low / 2), max(low, low / 2))


def _floats(
    generator: np.random.Generator,
    shape: tuple[int, ...],
    bounds: tuple[float, float] | None,
    is_low: bool,
) -> Array:
    if bounds is None:
        values = np.abs(generator.standard_normal(shape))
        return -values if is_low else values
    low, high = bounds
    middle = low / 2 + high / 2
    return generator.uniform(*((low, middle) if is_low else (middle, high)), shape)
