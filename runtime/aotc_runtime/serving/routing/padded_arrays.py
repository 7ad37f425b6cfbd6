"""Filling inputs up to a profile's shapes and cutting its outputs back; numpy in, numpy out.

The build proves padding with these same functions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType, EntryPoint, Pad
from aotc_runtime.schema.fallback_policies import without_compiling
from aotc_runtime.schema.fill_numbers import parse_fill

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def fill_value(text: str, dtype: DType) -> Array:
    """Return the fill of padding: a 0-d array of this dtype. Raises ValueError."""
    with np.errstate(over="ignore"):
        return np.asarray(parse_fill(text, dtype)).astype(numpy_dtype(dtype))


def declared_fills(spec: EntryPoint) -> dict[int, Array]:
    """Return the declared fill of padding by leaf."""
    texts: dict[str, str] = {}
    for policy in without_compiling(spec).values():
        if isinstance(policy, Pad):
            texts |= policy.fill
    return {
        leaf: fill_value(texts.get(tensor.path, "0"), tensor.dtype)
        for leaf, tensor in enumerate(spec.inputs)
    }


def pad(array: Array, shape: Shape, fill: Array) -> Array:
    """Return a new array of this shape that begins with the given one; the rest is filled."""
    padded = np.empty(shape, array.dtype)
    inside = tuple(slice(size) for size in array.shape)
    for axis, size in enumerate(array.shape):
        # What lies beyond the array on this axis and within it on those before.
        padded[(*inside[:axis], slice(size, None))] = fill
    padded[inside] = array
    return padded


def cut(array: Array, shape: Shape) -> Array:
    """Return a new, read-only array: the beginning of the given one."""
    kept = np.array(array[tuple(slice(size) for size in shape)], order="C")
    kept.setflags(write=False)
    return kept


def mask(axes: Sequence[int | str], shape: Shape, real: Mapping[str, int]) -> Array:
    """Return booleans of this shape, true where all `real` dimensions are below their real size.

    `axes` are the shape's expressions; a dimension counts where it stands by itself.
    """
    array = np.ones(shape, np.bool_)
    for axis, name in enumerate(axes):
        if isinstance(name, str) and name in real:
            array[(slice(None),) * axis + (slice(real[name], None),)] = False
    return array
