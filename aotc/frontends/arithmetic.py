"""Arithmetic that XLA rounds or rewrites otherwise than the frameworks that write model files."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax


def divided(x: Array, divisor: float) -> Array:
    """Return x / divisor as frameworks compute it.

    XLA multiplies by the reciprocal of a divisor that is the same for all elements, which is
    rounded twice: with a scale of that kind the largest number lies on the other side of a tie.
    A divisor that depends on each element is divided by, in every engine.
    """
    return x / jnp.where(jnp.isnan(x), 1, jnp.asarray(divisor, x.dtype))


def converted(x: Array, dtype: Any) -> Array:
    """Return `x` converted to `dtype`, booleans as numbers that products do not take for masks.

    XLA replaces the product of a converted boolean and `y` by a selection of `y` or 0, which
    loses the NaN of 0 * infinity, 0 * NaN and 0 / 0. Ones and zeros that are selected stay numbers.
    """
    if x.dtype == bool and jnp.issubdtype(dtype, jnp.inexact):
        return lax.select(x, jnp.ones(x.shape, dtype), jnp.zeros(x.shape, dtype))
    return x.astype(dtype)
