"""Compares quantized weights with those of the program; shares no code with the quantization."""

from collections.abc import Sequence
from typing import Any

import numpy as np

type Array = np.ndarray[Any, Any]

HALF_STEP = 0.5 + 2**-10
"""The largest distance of a number from its quantized one, in steps, with errors of rounding."""

TINY = 1e-16
"""Blocks of numbers below it may be zero."""

LARGEST = {"int8": 127, "int4": 7}
"""By element type: what the largest absolute value of numbers with a common scale becomes at
least, so that the scale is not larger than it has to be."""


def is_nearest(
    weight: Array, values: Array, scale: Array, contracted: Sequence[int], group: int = 0
) -> bool:
    """Return whether every number is the integer nearest to it, on the finest scale that holds all.

    `values` are the integers, and `scale` has not the axes whose numbers share one. `contracted`
    lists the axes of the weight whose numbers share a scale; with a `group`, so many along the last
    of them do.
    """
    integers = values.astype(np.int64)
    exact = weight.astype(np.float64)
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
