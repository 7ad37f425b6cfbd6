"""Sines and cosines of every float32, and of smaller floats, as a numerical workaround.

IREE's lose digits of negative numbers near zero and of all from a few hundred on, and are wrong
beyond 1e9. Quarter turns are subtracted in float64, and polynomials that are exact to float32's
last bits between -pi/4 and pi/4 do the rest. Numbers beyond 2^28 are m * 2^k with m below 2^24:
`table` holds the remainders of 2^k by a full turn.
"""

from fractions import Fraction
from functools import cache, partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from aotc.compile.mlir.jax_functions import element_of
from aotc.engines.iree.repairs.repair_bodies import UnrepairableError, replace, within

_PI = Fraction(0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89, 1 << 256)
"""To 256 bits."""

_LARGE = 28
"""Numbers from two to this are looked up."""

_NEAR = 0.7853981
"""Numbers below it need no turn."""

_QUARTER = (1.570796251296997, 7.549789415861596e-08, 5.390302858158119e-15)
"""pi / 2 in parts, the first two of 24 bits: their products with whole numbers below 2^28 are
exact."""


@cache
def table() -> tuple[list[float], list[float]]:
    """Return the remainders of 2^k by a full turn, for k from 0 to 104, in two parts.

    The first has 29 bits, so that its product with a float32's digits is exact.
    """
    turn = 2 * _PI
    first, second = [], []
    for k in range(105):
        rest = Fraction(2) ** k
        rest -= turn * round(rest / turn)
        high = Fraction(round(rest * 2**26), 2**26)
        first.append(float(high))
        second.append(float(rest - high))
    return first, second


def angle(operation: Any) -> None:
    """Replace a sine or a cosine."""
    if element_of(operation.results[0]) not in ("f16", "bf16", "f32"):
        return
    if parent := within(operation):
        raise UnrepairableError(f"{operation.name} within {parent}")
    replace(operation, partial(_turn, int(operation.name == "stablehlo.cosine")))


def _turn(quarters: int, given: Any) -> Any:
    """Return the sine of numbers that are turned by quarters."""
    x = given.astype(jnp.float32)
    size = jnp.abs(x)
    bits = lax.bitcast_convert_type(size, jnp.int32)
    index = lax.shift_right_logical(bits, jnp.full_like(bits, 23)) - 150
    digits = lax.bitcast_convert_type(bits & 8388607 | 1258291200, jnp.float32)
    m = (digits * jnp.sign(x)).astype(jnp.float64)
    most, more = (m * _look_up(part, index) for part in table())
    is_large = size >= 2.0**_LARGE
    begun = jnp.where(is_large, most, x.astype(jnp.float64))
    n = jnp.rint(begun * float(2 / _PI))
    for part in _QUARTER:
        begun = begun - n * part
    reduced = (begun + jnp.where(is_large, more, 0.0)).astype(jnp.float32)
    odd = x - x
    is_finite = odd == 0
    quadrant = jnp.where(is_finite, n, 0.0).astype(jnp.int32) + quarters
    t = jnp.where(is_finite, jnp.where(size < _NEAR, x, reduced), odd)
    z = t * t
    s = ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 0.16666654611) * z * t + t
    sine = jnp.where(t == 0, t, s)  # of -0 it is -0
    c = ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z
    value = jnp.where(quadrant & 1 == 1, 1 - z * 0.5 + c, sine)
    return jnp.where(quadrant & 2 == 2, -value, value).astype(given.dtype)


def _look_up(numbers: list[float], index: Any) -> Any:
    inside = lax.clamp(jnp.int32(0), index, jnp.int32(len(numbers) - 1))
    at = jnp.asarray(np.asarray(numbers)).at[inside]
    return at.get(mode="promise_in_bounds", wrap_negative_indices=False)
