"""Compares quantized weights with those of the program; shares no code with the quantization."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

type Array = np.ndarray[Any, Any]

HALF_STEP = 0.5 + 2**-10
"""Of a step: how far a number may be from its quantized one. Rounding adds the rest."""

TINY = 1e-16
"""Blocks of numbers below it may be zero."""

LARGEST = {"int8": 127, "int4": 7}
"""By element type: what the largest absolute value of numbers with a common scale becomes at
least, so that the scale is not larger than it has to be."""


class Quantized(Protocol):
    """Integers, and scales without the axes whose numbers share one."""

    @property
    def values(self) -> Array:
        """The integers."""

    @property
    def scale(self) -> Array:
        """The scales."""


def is_nearest(
    weight: Array, quantized: Quantized, contracted: Sequence[int], group: int = 0
) -> bool:
    """Return whether every number is the integer nearest to it, on the finest scale that holds all.

    `contracted` lists the axes of the weight whose numbers share a scale; with a `group`, so many
    along the last of them do.
    """
    integers = quantized.values.astype(np.int64)
    exact = weight.astype(np.float64)
    if integers.shape != exact.shape:
        return False
    scale = quantized.scale.astype(np.float64)
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
    return bool(((largest >= LARGEST[quantized.values.dtype.name]) | are_zero).all())
