"""Compares quantized weights with those of the program; shares no code with the quantization.

Quotients of float64 that are rounded to float32 are those of float32 itself, since float64 has more
than twice as many digits (S. A. Figueroa, "When is double rounding innocuous?", 1995).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

type Array = np.ndarray[Any, Any]

STEPS = {"int8": (127.5, -128, 127), "uint8": (7.5, -8, 7)}
"""By stored type: the largest absolute value in steps, and the least and the largest integer. A
uint8 holds two numbers of 4 bits."""

TINY = 2.0**-63
"""Smaller scales are replaced by 1."""


def is_nearest(
    weight: Array, values: Array, scale: Array, contracted: Sequence[int], group: int = 0
) -> bool:
    """Return whether scales are qwix's to the bit, and every integer the nearest to its number.

    `values` are the integers, and `scale` has not the axes whose numbers share one. `contracted`
    lists the axes of the weight whose numbers share a scale; with a `group`, so many along the last
    of them do. Bytes hold two integers plus 8, the first in the low half; `contracted` axes are
    last in them. Values of bfloat16 have no scale, and half of the bytes of their numbers.
    """
    if values.dtype.name == "bfloat16":
        bits = np.ascontiguousarray(weight, np.float32).view(np.uint32).astype(np.uint64)
        nearest = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        return np.array_equal(values.view(np.uint16), nearest)
    exact, integers = weight.astype(np.float64), values.astype(np.int16)
    if values.dtype == np.uint8:
        integers = _unpack_halves(integers, exact.shape, contracted)
    last, shared = contracted[-1], (*contracted,)
    if integers.shape != exact.shape or (group and exact.shape[last] % group):
        return False
    if group:
        many = exact.shape[last] // group
        sizes = (*exact.shape[:last], many, group, *exact.shape[last + 1 :])
        exact, integers, shared = exact.reshape(sizes), integers.reshape(sizes), (last + 1,)
    bound, least, largest = STEPS[values.dtype.name]
    step = (np.abs(exact).max(shared, keepdims=True) / bound).astype(np.float32)
    step = np.where(step < TINY, np.float32(1), step)
    if not np.array_equal(scale, step.squeeze(shared)):
        return False
    nearest = np.rint((exact / step).astype(np.float32)).clip(least, largest)
    return np.array_equal(integers, nearest)


def _unpack_halves(data: Array, shape: Sequence[int], contracted: Sequence[int]) -> Array:
    """Return the integers in the halves of bytes, in a weight's shape; as they are in another."""
    order = [axis for axis in range(len(shape)) if axis not in contracted] + [*contracted]
    *others, last = (shape[axis] for axis in order)
    if data.shape != (*others, -(-last // 2)):
        return data
    halves = np.stack([data % 16 - 8, data // 16 - 8], -1).reshape(*others, -1)[..., :last]
    return np.moveaxis(halves, range(len(order)), order)
