"""Division that is rounded once, for scales of quantization: half a step decides an integer."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def divided(x: Array, divisor: float) -> Array:
    """Return x / divisor as frameworks compute it.

    XLA multiplies by the reciprocal of a divisor that is the same for all elements, which is
    rounded twice: with a scale of that kind the largest number lies on the other side of a tie.
    A divisor that depends on each element is divided by, in every engine.
    """
    return x / jnp.where(jnp.isnan(x), 1, jnp.asarray(divisor, x.dtype))
