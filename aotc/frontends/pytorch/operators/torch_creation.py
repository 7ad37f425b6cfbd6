"""New tensors. What torch leaves uninitialized is zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from aotc.frontends.pytorch.operators.torch_operator_table import Family
from aotc.frontends.pytorch.torch_dtypes import FLOAT, INT, as_dtype, canonical, scalar_dtype
from aotc.frontends.pytorch.torch_refusals import few

FAMILY = Family()
op = FAMILY

type Size = Any


@op("full.default")
def full(size: Sequence[Size], fill_value: Any, dtype: Any = None) -> Array:
    made = scalar_dtype(fill_value) if dtype is None else dtype
    return jnp.broadcast_to(as_dtype(fill_value, made), tuple(size))


@op("full_like.default")
def full_like(self: Array, fill_value: Any, dtype: Any = None) -> Array:
    return full(self.shape, fill_value, dtype or self.dtype)


@op("new_full.default")
def new_full(self: Array, size: Sequence[Size], fill_value: Any, dtype: Any = None) -> Array:
    return full(size, fill_value, dtype or self.dtype)


@op("zeros.default", "empty.memory_format", "empty_permuted.default", "empty_strided.default")
def zeros(
    size: Sequence[Size],
    dtype: Any = None,
    physical_layout: Any = None,
    stride: Any = None,
) -> Array:
    return full(size, 0, dtype or FLOAT)


@op("ones.default")
def ones(size: Sequence[Size], dtype: Any = None) -> Array:
    return full(size, 1, dtype or FLOAT)


@op("zeros_like.default", "empty_like.default")
def zeros_like(self: Array, dtype: Any = None) -> Array:
    return full(self.shape, 0, dtype or self.dtype)


@op("ones_like.default")
def ones_like(self: Array, dtype: Any = None) -> Array:
    return full(self.shape, 1, dtype or self.dtype)


@op("new_zeros.default", "new_empty.default", "new_empty_strided.default")
def new_zeros(self: Array, size: Sequence[Size], dtype: Any = None, stride: Any = None) -> Array:
    return full(size, 0, dtype or self.dtype)


@op("new_ones.default")
def new_ones(self: Array, size: Sequence[Size], dtype: Any = None) -> Array:
    return full(size, 1, dtype or self.dtype)


@op("fill.Scalar", "fill.Tensor")
def fill(self: Array, value: Any) -> Array:
    return full(self.shape, value, self.dtype)


@op("zero.default")
def zero(self: Array) -> Array:
    return full(self.shape, 0, self.dtype)


@op("scalar_tensor.default")
def scalar_tensor(s: Any, dtype: Any = None) -> Array:
    return as_dtype(s, dtype or FLOAT)


@op("arange.default", "arange.start", "arange.start_step")
def arange(end: Any, start: Any = 0, step: Any = 1, dtype: Any = None) -> Array:
    """Each element is start + i * step, in the precision of the result's dtype."""
    if dtype is None:
        dtype = FLOAT if any(isinstance(n, float) for n in (start, end, step)) else INT
    dtype = canonical(dtype)
    if all(isinstance(n, int | float) for n in (start, end, step)):
        count: Size = max(math.ceil((end - start) / step), 0)
    else:
        count = -((start - end) // step)
    numbers = jnp.arange(count, dtype=canonical(INT)).astype(dtype)
    return as_dtype(start, dtype) + numbers * as_dtype(step, dtype)


@op("linspace.default")
def linspace(start: Any, end: Any, steps: int, dtype: Any = None) -> Array:
    """Torch counts the second half from the end."""
    dtype = canonical(dtype or FLOAT)
    if steps == 1:
        return as_dtype(start, dtype).reshape(1)
    step = as_dtype((end - start) / max(steps - 1, 1), FLOAT)
    numbers = jnp.arange(steps, dtype=canonical(INT))
    first = as_dtype(start, FLOAT) + step * numbers
    last = as_dtype(end, FLOAT) - step * (steps - 1 - numbers)
    return jnp.where(numbers < steps // 2, first, last).astype(dtype)


@op("eye.default", "eye.m")
def eye(n: Size, m: Size | None = None, dtype: Any = None) -> Array:
    return jnp.eye(n, m, dtype=canonical(dtype or FLOAT))


@op("tril_indices.default")
def tril_indices(row: int, col: int, offset: int = 0, dtype: Any = None) -> Array:
    few(max(row, col), "rows or columns of places")
    rows, columns = jnp.tril_indices(row, offset, col)
    return jnp.stack([rows, columns]).astype(canonical(dtype or INT))


@op("triu_indices.default")
def triu_indices(row: int, col: int, offset: int = 0, dtype: Any = None) -> Array:
    few(max(row, col), "rows or columns of places")
    rows, columns = jnp.triu_indices(row, offset, col)
    return jnp.stack([rows, columns]).astype(canonical(dtype or INT))
