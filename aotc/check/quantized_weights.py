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
    exact, integers = weight.astype(np.float64), values.astype(np.int64)
    if values.dtype == np.uint8:
        integers = _of_halves(integers, exact.shape, contracted)
    last, shared = contracted[-1], (*contracted,)
    if integers.shape != exact.shape or (group and exact.shape[last] % group):
        return False
    if group:
        many = exact.shape[last] // group
        sizes = (*exact.shape[:last], many, group, *exact.shape[last + 1 :])
        exact, integers, shared = exact.reshape(sizes), integers.reshape(sizes), (last + 1,)
    if scale.shape != tuple(n for axis, n in enumerate(exact.shape) if axis not in shared):
        return False
    step = np.expand_dims(scale.astype(np.float64), shared)
    if (np.abs(exact - integers * step) > HALF_STEP * step).any():
        return False
    largest, is_zero = np.abs(integers).max(axis=shared), (np.abs(exact) < TINY).all(axis=shared)
    return bool(((largest >= LARGEST[values.dtype.name]) | is_zero).all())


def _of_halves(data: Array, shape: Sequence[int], contracted: Sequence[int]) -> Array:
    """Return the integers in the halves of bytes, in a weight's shape; as they are in another."""
    order = [axis for axis in range(len(shape)) if axis not in contracted] + [*contracted]
    *others, last = (shape[axis] for axis in order)
    if data.shape != (*others, -(-last // 2)):
        return data
    halves = np.stack([data % 16 - 8, data // 16 - 8], -1).reshape(*others, -1)[..., :last]
    return np.moveaxis(halves, range(len(order)), order)
