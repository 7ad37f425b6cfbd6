"""Combine calls of different sizes into one call.

Their rows are concatenated along a split dimension, and each is padded in the other dimensions as
it would be alone. The build tests this with the same functions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aotc_runtime.schema.bundle_manifest import TensorSpec
from aotc_runtime.schema.size_expressions import parse_expression
from aotc_runtime.serving.routing.padding_masks import Mask
from aotc_runtime.serving.routing.split_calls import axis_of

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]


def own_axis(tensor: TensorSpec, dimension: str) -> int | None:
    """Return the axis that is the dimension; None without one, or if others depend on it."""
    using = [
        axis
        for axis in tensor.shape
        if isinstance(axis, str) and (axis == "?" or dimension in parse_expression(axis).names())
    ]
    return axis_of(tensor.shape, dimension) if using == [dimension] else None


def mixable(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    dimension: str,
    padded: Iterable[str],
    masks: Mapping[int, Collection[str]],
    lengths: Mapping[int, str],
) -> tuple[str, ...]:
    """Return the padded dimensions in which combined calls may differ.

    Masks and lengths must be able to state the real part for each row; trials show whether it
    works. `masks` and `lengths` are leaves that the loader passes, with their dimensions.
    """
    passed = [leaf for leaf in range(len(inputs)) if leaf not in lengths]
    tensors = [*(inputs[leaf] for leaf in passed), *outputs]
    if any(own_axis(tensor, dimension) is None for tensor in tensors):
        return ()
    found = set(padded) - set(lengths.values())
    for leaf, marked in masks.items():
        # What is padded without being marked by the mask would have to be true behind its end.
        if not {axis for axis in inputs[leaf].shape if axis in found} <= set(marked):
            found -= {*marked, *inputs[leaf].shape}
    return tuple(sorted(found))


def stack(arrays: Sequence[Array], axis: int, shape: Sequence[int], fill: Array) -> Array:
    """Return an array of this shape that concatenates the given ones along an axis.

    Along other axes each begins at 0; the rest is filled.
    """
    whole = np.full(shape, fill, fill.dtype)
    start = 0
    for array in arrays:
        place = [slice(size) for size in array.shape]
        place[axis] = slice(start, start + array.shape[axis])
        whole[tuple(place)] = array
        start += array.shape[axis]
    return whole


def stack_mask(mask: Mask, calls: Sequence[Sizes], dimension: str, shape: Sequence[int]) -> Array:
    """Return the mask, of this shape, of calls whose rows lie behind each other."""
    axis = mask.axes.index(dimension)
    parts = [
        mask.array((*shape[:axis], sizes[dimension], *shape[axis + 1 :]), sizes) for sizes in calls
    ]
    return np.concatenate(parts, axis)


def row_part(array: Array, axis: int, start: int, shape: Sequence[int]) -> Array:
    """Return the part of an array that belongs to one call. A new, read-only array."""
    place = [slice(size) for size in shape]
    place[axis] = slice(start, start + shape[axis])
    part = np.array(array[tuple(place)], order="C")
    part.setflags(write=False)
    return part
