"""Values that are known while tracing, and sizes that are symbolic."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.capture.model_files.frontend_protocol import Array
from aotc.frontends.onnx.onnx_operator_table import Value

KNOWN = 4096
"""The most elements that an operand has which is computed with while tracing. What decides shapes
is small; a file must not make a build compute, or allocate."""

LARGEST = 1 << 33
"""The most elements of an array: 32 GiB of float32. XLA takes minutes and all memory to compile
programs with larger ones, or divides by a size that has become 0 in 32 bits.
"""


def is_known(value: Value) -> bool:
    """Return whether a value is an array that is known while tracing."""
    return isinstance(value, np.ndarray)


def is_symbolic(value: Value) -> bool:
    """Return whether an array that is known holds sizes that are symbolic."""
    return isinstance(value, np.ndarray) and value.dtype == object


def settle(value: Array) -> Array:
    """Return sizes as int64, unless one of them is symbolic."""
    if value.dtype == object and all(isinstance(size, int | np.integer) for size in value.flat):
        return value.astype(np.int64)
    return value


def sizes(dimensions: Sequence[Any]) -> Array:
    """Return sizes, symbolic or not, as a vector that is known."""
    vector = np.empty(len(dimensions), object)
    for index, size in enumerate(dimensions):
        vector[index] = size
    return settle(vector)


def elements(shape: Sequence[Any]) -> int:
    """Return how many elements an array has, with 1 for each symbolic size."""
    return math.prod(size for size in shape if isinstance(size, int))


def fits(value: Array, dtype: np.dtype[Any]) -> bool:
    """Return whether whole numbers are those of a narrower type too."""
    if not value.size:
        return True
    limits = np.iinfo(dtype)
    return bool(limits.min <= value.min() and value.max() <= limits.max)


def has_symbols(value: Value) -> bool:
    """Return whether a value holds sizes that are symbolic, or has one in its shape."""
    if isinstance(value, list):
        return any(map(has_symbols, value))
    shape = getattr(value, "shape", ())
    return is_symbolic(value) or any(not isinstance(size, int) for size in shape)


def type_text(value: Value) -> str:
    """Return a value's type as messages show it: `float32[2,3]`."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    dtype = "int64" if is_symbolic(value) else str(value.dtype)
    return f"{dtype}[{','.join(map(str, value.shape))}]"
