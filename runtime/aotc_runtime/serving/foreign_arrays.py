"""Arrays of a jax that the server itself imported; nothing here imports it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_jax(value: Any) -> bool:
    """Whether a value is a jax array."""
    array = getattr(sys.modules.get("jax"), "Array", None)
    return array is not None and isinstance(value, array)


def to_jax(arrays: list[np.ndarray[Any, Any]]) -> list[Any]:
    """numpy arrays as jax arrays; those that jax' settings would narrow stay numpy arrays."""
    jax = sys.modules["jax"]
    return [
        jax.numpy.asarray(array)
        if jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype
        else array
        for array in arrays
    ]
