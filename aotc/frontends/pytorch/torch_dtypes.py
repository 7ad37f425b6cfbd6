"""Torch's dtypes as numpy's, and torch's rule for what two of them make together."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from aotc.capture.model_files.framework_arithmetic import convert
from aotc.frontends.pytorch.torch_refusals import Unsupported

type DType = np.dtype[Any]

SCALAR_TYPES: dict[int, DType] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.int8),
    3: np.dtype(np.int16),
    4: np.dtype(np.int32),
    5: np.dtype(np.int64),
    6: np.dtype(np.float16),
    7: np.dtype(np.float32),
    8: np.dtype(np.float64),
    10: np.dtype(np.complex64),
    11: np.dtype(np.complex128),
    12: np.dtype(np.bool_),
    13: np.dtype(ml_dtypes.bfloat16),
    28: np.dtype(np.uint16),
    29: np.dtype(ml_dtypes.float8_e4m3fn),
    30: np.dtype(ml_dtypes.float8_e5m2),
    31: np.dtype(ml_dtypes.float8_e4m3fnuz),
    32: np.dtype(ml_dtypes.float8_e5m2fnuz),
    34: np.dtype(np.uint32),
    35: np.dtype(np.uint64),
}
"""`ScalarType` of torch's schema."""

FLOAT, INT, BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)
"""Torch's dtypes for Python's float, int and bool."""


def canonical(dtype: Any) -> DType:
    """Return jax's dtype for a torch dtype: 32 bits while 64-bit types are off."""
    made: DType = jax.dtypes.canonicalize_dtype(dtype)
    return made


def category(dtype: Any) -> int:
    """0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    if dtype == np.bool_:
        return 0
    if jnp.issubdtype(dtype, jnp.integer):
        return 1
    return 2 if jnp.issubdtype(dtype, jnp.floating) else 3


def is_float(value: Any) -> bool:
    """Return whether a value has a floating-point dtype."""
    return category(value.dtype) == 2


def is_low(dtype: Any) -> bool:
    """Return whether torch computes this dtype in float32 and rounds the result."""
    return category(dtype) == 2 and np.dtype(dtype).itemsize < 4


def is_tensor(value: Any) -> bool:
    """Return whether a value is an array, not a Python number."""
    return isinstance(value, jax.Array | np.ndarray | np.generic)


def join(a: DType, b: DType) -> DType:
    """Return the smallest dtype that holds both, as `torch.promote_types`."""
    if a == b:
        return a
    if category(a) != category(b):
        low, high = sorted((a, b), key=category)
        if category(high) == 3 and low.itemsize > 4 and category(low) == 2:
            return canonical(np.complex128)
        return high
    if category(a) == 2:
        if min(a.itemsize, b.itemsize) < 2:
            raise Unsupported(f"{a} together with {b}")
        return FLOAT if a.itemsize == b.itemsize else max(a, b, key=lambda d: d.itemsize)
    made = np.promote_types(a, b)
    if category(made) != 1 and category(a) == 1:
        raise Unsupported(f"{a} together with {b}")
    return made


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    if higher is None or lower is None:
        return higher or lower
    return join(higher, lower) if category(lower) > category(higher) else higher


def scalar_dtype(value: Any) -> DType:
    """Torch's dtype for a Python number or a size."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, float):
        return FLOAT
    return np.dtype(np.complex64) if isinstance(value, complex) else canonical(INT)


def promote(*values: Any) -> DType:
    """Return the dtype in which torch computes with these values.

    Tensors with axes count before those without, and these before Python's numbers, unless they are
    of a lower category.
    https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
    """
    kinds: list[DType | None] = [None, None, None]
    for value in values:
        if is_tensor(value):
            rank, dtype = (0 if value.ndim else 1), np.dtype(value.dtype)
        else:
            rank, dtype = 2, scalar_dtype(value)
        known = kinds[rank]
        kinds[rank] = dtype if known is None else join(known, dtype)
    made = _combine(kinds[0], _combine(kinds[1], kinds[2]))
    assert made is not None
    return canonical(made)


def as_dtype(value: Any, dtype: Any) -> jax.Array:
    """Return a tensor or a number as an array of a dtype, converted as torch does."""
    dtype = canonical(dtype)
    if not is_tensor(value):
        if isinstance(value, float) and category(dtype) == 1:
            value = int(value)
        if isinstance(value, int) and np.issubdtype(dtype, np.unsignedinteger):
            value %= 1 << 8 * dtype.itemsize
        return jnp.asarray(value, dtype)
    if category(value.dtype) == 2 and category(dtype) == 1 and dtype.itemsize < 4:
        # By way of 32 bits, of which the lowest are left, as on the processors that torch runs on.
        value = value.astype(np.int32)
    if isinstance(value, jax.Array):
        return convert(value, dtype)
    return value if value.dtype == dtype else value.astype(dtype)


def promote_all(*values: Any) -> tuple[jax.Array, ...]:
    """Return the values as arrays of the dtype in which torch computes with them."""
    dtype = promote(*values)
    return tuple(as_dtype(value, dtype) for value in values)


def scaled(self: Any, other: Any) -> tuple[jax.Array, jax.Array]:
    """Return them as `promoted` does, but one number beside shorter floats in float32.

    Torch rounds products and quotients with it once, and numbers elsewhere to the tensors' dtype.
    """
    dtype = promote(self, other)
    one = not is_tensor(other) or all(size == 1 for size in other.shape)
    return as_dtype(self, dtype), as_dtype(other, wide(dtype) if one else dtype)


def as_float(*values: Any) -> tuple[jax.Array, ...]:
    """Return arrays of one type for functions whose results are floats: integers become float32."""
    dtype = promote(*values)
    if category(dtype) < 2:
        dtype = FLOAT
    return tuple(as_dtype(value, dtype) for value in values)


def wide(dtype: Any) -> DType:
    """Return the dtype in which torch computes a result: float32 for shorter floats."""
    return FLOAT if is_low(dtype) else np.dtype(dtype)
