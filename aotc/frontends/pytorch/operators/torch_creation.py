"""New tensors. What torch leaves uninitialized is zero."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from aotc.frontends.pytorch.operators.torch_operator_table import Family
from aotc.frontends.pytorch.torch_dtypes import FLOAT, INT, as_dtype, canonical, scalar_dtype
from aotc.frontends.pytorch.torch_refusals import few

FAMILY = Family()
op = FAMILY

type Size = Any


@op("full")
def full(size: Sequence[Size], fill_value: Any, dtype: Any = None) -> Array:
    made = scalar_dtype(fill_value) if dtype is None else dtype
    return jnp.broadcast_to(as_dtype(fill_value, made), tuple(size))


@op("arange", "arange.start", "arange.start_step")
def arange(end: Any, start: Any = 0, step: Any = 1, dtype: Any = None) -> Array:
    """Return the elements start + i * step, in the precision of the result's dtype."""
    if dtype is None:
        dtype = FLOAT if any(isinstance(n, float) for n in (start, end, step)) else INT
    dtype = canonical(dtype)
    if all(isinstance(n, int | float) for n in (start, end, step)):
        count: Size = max(math.ceil((end - start) / step), 0)
    else:
        count = -((start - end) // step)
    numbers = jnp.arange(count, dtype=canonical(INT)).astype(dtype)
    return as_dtype(start, dtype) + numbers * as_dtype(step, dtype)


@op("linspace")
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


def _indices(function: Callable[..., tuple[Array, Array]]) -> Callable[..., Array]:
    def run(row: int, col: int, offset: int = 0, dtype: Any = None) -> Array:
        few(max(row, col), "rows or columns of places")
        return jnp.stack(function(row, offset, col)).astype(canonical(dtype or INT))

    return run


op.table(
    {
        "full_like": lambda self, fill_value, dtype=None: full(
            self.shape, fill_value, dtype or self.dtype
        ),
        "new_full": lambda self, size, fill_value, dtype=None: full(
            size, fill_value, dtype or self.dtype
        ),
        "zeros empty.memory_format empty_permuted": lambda size, dtype=None: full(
            size, 0, dtype or FLOAT
        ),
        "empty_strided": lambda size, stride, dtype=None: full(size, 0, dtype or FLOAT),
        "ones": lambda size, dtype=None: full(size, 1, dtype or FLOAT),
        "zeros_like empty_like": lambda self, dtype=None: full(self.shape, 0, dtype or self.dtype),
        "ones_like": lambda self, dtype=None: full(self.shape, 1, dtype or self.dtype),
        "new_zeros new_empty new_empty_strided": lambda self, size, dtype=None, stride=None: full(
            size, 0, dtype or self.dtype
        ),
        "new_ones": lambda self, size, dtype=None: full(size, 1, dtype or self.dtype),
        "fill.Scalar fill.Tensor": lambda self, value: full(self.shape, value, self.dtype),
        "zero": lambda self: full(self.shape, 0, self.dtype),
        "scalar_tensor": lambda s, dtype=None: as_dtype(s, dtype or FLOAT),
        "tril_indices": _indices(jnp.tril_indices),
        "triu_indices": _indices(jnp.triu_indices),
        "eye eye.m": lambda n, m=None, dtype=None: jnp.eye(n, m, dtype=canonical(dtype or FLOAT)),
    }
)
