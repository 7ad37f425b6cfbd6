"""Compares quantized weights with those of the program; shares no code with the quantization."""

from collections.abc import Sequence
from typing import Any

import numpy as np

type Array = np.ndarray[Any, Any]

HALF_STEP = 0.5 + 2**-10
"""The largest distance of a number from its quantized one, in steps, with errors of rounding."""

TINY = 1e-16
"""Blocks of numbers below it may be zero."""

LARGEST = {"int8": 127, "uint8": 7}
"""By stored type: what the largest absolute value of numbers with a common scale becomes at least,
so that the scale is not larger than it has to be. A uint8 holds two numbers of 4 bits."""


def is_nearest(
    weight: Array, values: Array, scale: Array, contracted: Sequence[int], group: int = 0
) -> bool:
    """Return whether every number is the integer nearest to it, on the finest scale that holds all.

    `values` are the integers, and `scale` has not the axes whose numbers share one. `contracted`
    lists the axes of the weight whose numbers share a scale; with a `group`, so many along the last
    of them do. Bytes hold two integers plus 8, the first in the low half; `contracted` axes are
    last in them.
    """
    exact = weight.astype(np.float64)
    integers = values.astype(np.int64)
    if values.dtype == np.uint8:
        found = _of_halves(integers, exact.shape, contracted)
        if found is None:
            return False
        integers = found
    if integers.shape != exact.shape:
        return False
    scale = scale.astype(np.float64)
    shared = [*contracted]
    if group:
        shared = [contracted[-1]]
        scale = np.repeat(scale, group, axis=contracted[-1])
    else:
        for axis in shared:
            scale = np.expand_dims(scale, axis)
    wanted = tuple(1 if axis in shared and not group else n for axis, n in enumerate(exact.shape))
    if scale.shape != wanted:
        return False
    if (np.abs(exact - integers * scale) > HALF_STEP * scale).any():
        return False
    magnitudes = np.abs(integers).astype(np.float64)
    is_zero = np.abs(exact) < TINY
    if group:
        starts = np.arange(0, exact.shape[shared[0]], group)
        largest = np.maximum.reduceat(magnitudes, starts, axis=shared[0])
        are_zero = np.logical_and.reduceat(is_zero, starts, axis=shared[0])
    else:
        largest, are_zero = magnitudes.max(axis=(*shared,)), is_zero.all(axis=(*shared,))
    return bool(((largest >= LARGEST[values.dtype.name]) | are_zero).all())


def _of_halves(data: Array, shape: Sequence[int], contracted: Sequence[int]) -> Array | None:
    """Return the integers in the halves of bytes, in a weight's shape; None if it is another."""
    last, sizes = contracted[-1], [*shape]
    sizes[last] = -(-shape[last] // 2)
    places = [axis for axis in range(len(shape)) if axis not in contracted] + [*contracted]
    if data.shape != tuple(sizes[axis] for axis in places):
        return None
    data = np.moveaxis(data, range(len(shape)), places)
    integers = np.empty((*sizes[:last], 2 * sizes[last], *sizes[last + 1 :]), np.int64)
    every = (slice(None),) * last
    integers[*every, 0::2], integers[*every, 1::2] = data % 16 - 8, data // 16 - 8
    return np.asarray(integers[*every, : shape[last]])
