"""Cutting a call into several along one dimension, and joining their results; numpy, pure."""

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def axis_of(axes: Sequence[int | str], dimension: str) -> int | None:
    """Return the axis that is this dimension."""
    return axes.index(dimension) if dimension in axes else None


def piece(array: Array, axis: int, start: int, stop: int) -> Array:
    """Return a C-contiguous part between two positions of an axis, if possible a view."""
    return np.ascontiguousarray(array[(slice(None),) * axis + (slice(start, stop),)])


def join(arrays: Sequence[Array], axis: int | None) -> Array:
    """Return the results of all parts as one new, read-only array.

    Results without the dimension are alike; the first is returned.
    """
    joined = np.concatenate(arrays, axis) if axis is not None else np.array(arrays[0])
    joined.setflags(write=False)
    return joined
