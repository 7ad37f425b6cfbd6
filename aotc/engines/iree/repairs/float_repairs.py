"""Numerical workarounds for floats: powers, logarithms, conversions, and masked products.

In a product with booleans as numbers XLA selects, so a masked element may be NaN.
"""

from functools import partial
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.compile.mlir.jax_functions import dtype_of, element_of, put, shape_of
from aotc.engines.iree.repairs.repair_bodies import BITS, FLOATS, replace, within


def power(operation: Any) -> None:
    """Compute powers by logarithms in float64, since IREE's float32 has 5 digits of large powers.

    Special cases are those of C's `pow`.
    """
    if element_of(operation.results[0]) in FLOATS:
        replace(operation, _power)


def _power(base: Any, exponent: Any) -> Any:
    x, y = base.astype(jnp.float64), exponent.astype(jnp.float64)
    size = jnp.abs(x)
    raised = jnp.where(y == 1, size, jnp.exp(jnp.log(size) * y))
    power = jnp.where(size == 1, 1.0, raised)
    is_whole, is_even = jnp.floor(y) == y, jnp.floor(y / 2) == y / 2
    is_end = (size == 0) | (size == jnp.inf)
    signed = jnp.where(is_even, power, -power)
    below = jnp.where(is_whole, signed, jnp.where(is_end, power, jnp.nan))
    is_negative = lax.bitcast_convert_type(x, jnp.int64) < 0
    made = jnp.where(x != x, x, jnp.where(is_negative, below, power))
    made = jnp.where(y == 0, 1.0, made)
    # IREE makes no small float16 of a float64.
    return (made if base.dtype == made.dtype else made.astype(jnp.float32)).astype(base.dtype)


def convert(operation: Any) -> None:
    """Convert numbers as XLA does.

    Floats that fit into no integer become the nearest one, and NaN zero; integers become bfloat16,
    and float64 becomes float16, by way of float32; unsigned integers stay unsigned.
    """
    element, wanted = element_of(operation.operands[0]), element_of(operation.results[0])
    if element == wanted:
        return
    dtype = dtype_of(operation.results[0])
    if element in BITS or element == "i1":
        bits = BITS.get(element, 1)
        is_masked = not element.startswith("i") or element == "i1"
        is_masked &= bits < BITS.get(wanted, 64)
        if wanted in (*BITS, *FLOATS) and (is_masked or wanted == "bf16"):
            replace(operation, partial(_from_integer, dtype, bits if is_masked else 0))
    elif (element, wanted) == ("f64", "f16"):
        replace(operation, lambda x: x.astype(jnp.float32).astype(jnp.float16))
    elif element in FLOATS and wanted in BITS:
        replace(operation, partial(_to_integer, dtype))


def _from_integer(dtype: np.dtype[Any], bits: int, x: Any) -> Any:
    """Convert integers; unsigned ones and booleans behind a mask that keeps all of their bits.

    IREE otherwise fuses the conversion into a product, and forgets there that they have no sign.
    """
    if bits:
        held = dtype if dtype.kind in "iu" else np.dtype(np.int32 if bits < 32 else np.int64)
        x = x.astype(held) & np.asarray(2**bits - 1, held)
    if dtype != jnp.bfloat16:
        return x.astype(dtype)
    single = lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32)
    place = jnp.full_like(single, 16)
    rounded = single + 32767 + (lax.shift_right_logical(single, place) & 1)
    upper = lax.shift_right_logical(rounded, place).astype(jnp.uint16)
    return lax.bitcast_convert_type(upper, jnp.bfloat16)


def _to_integer(dtype: np.dtype[Any], x: Any) -> Any:
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore"):  # float16 ends at 65504
        is_above = x >= np.asarray(float(limits.max + 1), x.dtype)
        is_below = x <= np.asarray(float(limits.min), x.dtype)
    is_none = x != x
    safe = jnp.where(is_above | is_below | is_none, np.zeros((), x.dtype), x).astype(dtype)
    least, most, none = (np.asarray(each, dtype) for each in (limits.min, limits.max, 0))
    ended = jnp.where(is_below, least, jnp.where(is_above, most, safe))
    return jnp.where(is_none, none, ended)


_MASKED = ("f16", "f32", "f64")
"""Numbers whose products with booleans XLA selects."""


def mask_factor(operation: Any) -> None:
    """Choose between a number and 0, by the booleans of the other factor."""
    if within(operation) or element_of(operation.results[0]) not in _MASKED:
        return
    for place, factor in enumerate(operation.operands):
        condition = _condition(factor)
        if condition is None:
            continue
        made = _select(operation, condition, operation.operands[1 - place])
        operation.results[0].replace_all_uses_with(made)
        operation.erase()
        return


def mask_product(operation: Any) -> None:
    """Choose before a product that multiplies numbers with those in their place and adds them."""
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    one = [*numbers.lhs_batching_dimensions, *numbers.lhs_contracting_dimensions]
    other = [*numbers.rhs_batching_dimensions, *numbers.rhs_contracting_dimensions]
    ranks = {len(shape_of(operand)) for operand in operation.operands}
    if one != other or ranks != {len(one)}:
        return
    for place, factor in enumerate(operation.operands):
        condition = _condition(factor)
        if condition is not None and element_of(factor) in ("f32", "f64"):
            value = operation.operands[1 - place]
            operation.operands[1 - place] = _select(operation, condition, value)
            return


def _condition(value: Any) -> Any:
    """Return the booleans that a value has as numbers; None of others, and where XLA sees none.

    XLA treats constants as numbers, and broadcasts numbers instead of booleans.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.convert":
        return None
    condition = owner.operands[0]
    if element_of(condition) != "i1":
        return None
    maker = condition.owner
    if isinstance(maker, ir.Block):
        return condition
    if maker.name == "stablehlo.constant":
        return None
    if maker.name == "stablehlo.broadcast_in_dim":
        return condition if prod(shape_of(maker.operands[0])) == prod(shape_of(condition)) else None
    return condition


def _select(operation: Any, condition: Any, value: Any) -> Any:
    (made,) = put(operation, lambda c, x: lax.select(c, x, jnp.zeros_like(x)), condition, value)
    return made
