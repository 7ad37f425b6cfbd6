"""Arithmetic that XLA rounds or rewrites otherwise than the frameworks that write model files."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax


def true_divide(x: Array, divisor: Any) -> Array:
    """Return x / divisor as frameworks compute it.

    XLA multiplies by the reciprocal of a divisor that is the same for all elements, which is
    rounded twice: with a scale of that kind the largest number lies on the other side of a tie.
    A divisor that depends on each element is divided by, in every engine.
    """
    return x / jnp.where(jnp.isnan(x), 1, jnp.asarray(divisor, x.dtype))


def convert(x: Array, dtype: Any) -> Array:
    """Return `x` converted to `dtype`, with booleans as numbers that are no masks in products.

    XLA replaces the product of a converted boolean and `y` by a selection of `y` or 0, which loses
    the NaN of 0 * infinity, 0 * NaN and 0 / 0. Selected ones and zeros stay numbers.
    """
    if x.dtype == bool and jnp.issubdtype(dtype, jnp.inexact):
        return lax.select(x, jnp.ones(x.shape, dtype), jnp.zeros(x.shape, dtype))
    return x.astype(dtype)


def integer_power(base: Array, exponent: Array) -> Array:
    """Return integers to the power of integers as C++ computes it.

    Products wrap around, and a negative exponent gives the inverse cut to an integer: 0, or the
    power of 1 and -1. `jnp.power` has other numbers for both, and for exponents above 63.
    """
    base, exponent = jnp.broadcast_arrays(base, exponent)
    kind = jnp.iinfo(exponent.dtype)
    odd = (exponent & 1) == 1
    one = jnp.ones((), base.dtype)
    inverse = jnp.where(
        (base == 1) | ((base == -one) & ~odd), one, jnp.where(base == -one, base, 0)
    )
    result, square = jnp.where(odd, base, one), base
    for bit in range(1, kind.bits - (kind.min < 0)):
        square = square * square
        result = jnp.where((exponent >> bit) & 1 == 1, result * square, result)
    return jnp.where(exponent < 0, inverse, result)
