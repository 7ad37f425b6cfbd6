"""Inputs of the calls that each model is tried with, made of two ordinary ones.

Runs where a framework is installed: numpy alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

type Array = np.ndarray[Any, Any]

CALLS = ("first", "second", "edges", "nonfinite")
"""Ordinary; ordinary, and other numbers in every element; zeros, ends of ranges and large numbers;
NaN and infinities.
"""


def is_mask(array: Array) -> bool:
    """Whether an input has only truth values, or zeros and ones."""
    return array.dtype == bool or (array.dtype.kind in "iu" and set(np.unique(array)) <= {0, 1})


def edges(array: Array, other: Array) -> Array:
    """Return zeros of both signs, tiny and large numbers; integers at the ends of their range."""
    made = array.copy()
    if is_mask(array):
        made[...] = 1
        return made
    flat = made.reshape(-1)
    if array.dtype.kind == "f":
        tiny = np.finfo(array.dtype).tiny
        numbers = np.array([0.0, -0.0, tiny, 1e-6, 100.0, -100.0, 1.0])
        flat[::2] = np.resize(numbers, flat[::2].shape).astype(array.dtype)
        return made
    both = np.concatenate([array.reshape(-1), other.reshape(-1)])
    flat[:] = np.resize(np.array([both.min(), both.max()], array.dtype), flat.shape)
    return made


def nonfinite(array: Array) -> Array:
    """Return NaN, both infinities and the largest number, each in one element of the last row."""
    made = array.copy()
    if array.dtype.kind == "f" and array.size:
        flat = made.reshape(-1)
        numbers = [np.nan, np.inf, -np.inf, np.finfo(array.dtype).max]
        step = max(flat.size // 8, 1)
        for number, value in enumerate(numbers):
            flat[-1 - (number * step) % max(flat.size // 2, 1)] = value
    elif is_mask(array) and array.ndim > 1:
        made[-1] = 0
    return made


def every(first: list[Array], second: list[Array]) -> dict[str, list[Array]]:
    """The arguments of each call."""
    return {
        "first": first,
        "second": second,
        "edges": [edges(a, b) for a, b in zip(first, second, strict=True)],
        "nonfinite": [nonfinite(a) for a in first],
    }
