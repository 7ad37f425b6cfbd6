"""Numbers that a program rounds to few steps, in plain JAX.

After sums in another order, a number between two steps may be rounded to the other one. Both
results are right. The step allowance is how far they are apart: plain JAX runs again with the
numbers that lie nearest to the middle between two steps rounded to the other step.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir

from aotc.compile.mlir.jax_functions import element_of, inline, put
from aotc.compile.mlir.mlir_context import operations_named
from aotc.compile.precision.weight_products import MOVES, Axes, matrix_products

type Array = np.ndarray[Any, Any]

LARGEST = 127.5
"""The largest absolute value of a row after scaling; rounding leaves at most 127."""

TINY = 1.0842021724855044e-19
"""The square root of the smallest normal number of float32: smaller scales are replaced by 1."""

BETWEEN = 0.499
"""Numbers that are this far from their step are rounded to the other one."""

NUDGE = 0.004
"""By how much of its distance from the nearest number of bfloat16 a number is moved: to the other
side of the middle if it is as near to that."""

TIMES = 4
"""The allowance as a multiple of the difference that was found."""

PART_MAX = 0.05
"""The largest allowance, as a part of a result's largest number: a wrong scale exceeds it."""

NARROWING = "stablehlo.reduce_precision"
ROUNDING = ("stablehlo.round_nearest_even", NARROWING)
LOOPS = ("stablehlo.while",)
LIMITS = ("stablehlo.clamp", "stablehlo.maximum", "stablehlo.minimum")


def round_activations(module: ir.Module, weights: Mapping[int, float | None]) -> None:
    """Round the other factors of products with the weights that these parameters are.

    They stay floating-point numbers, and products are not of integers. Each parameter has the
    static scale of the factor, or None for one of each row.
    """
    for product in matrix_products(module, weights):
        summed = product.dimension_numbers[0][1 - product.place]
        function = _rounding(summed, weights[product.parameter])
        (rounded,) = put(product.operation, function, product.activation)
        product.operation.operands[1 - product.place] = rounded


@lru_cache(maxsize=256)
def _rounding(summed: Axes, static: float | None) -> Callable[[Any], Any]:
    def rounded(x: Any) -> Any:
        unit = jnp.max(jnp.abs(x), axis=summed, keepdims=True) / np.float32(LARGEST)
        unit = jnp.where(unit < np.float32(TINY), np.float32(1), unit)
        if static is not None:
            unit = jnp.where(jnp.isfinite(unit), np.float32(static), np.float32(np.nan))
        return jnp.clip(jnp.round(x / unit), -127, 127) * unit

    return rounded


def round_to_other_steps(module: ir.Module) -> bool:
    """Round numbers between two steps to the other one, at least one of each sample in 8 bits.

    Numbers have steps if their rounding is followed by limits, or by a conversion to 8-bit
    integers, or if they are computed and rounded to bfloat16. Returns whether there are such
    numbers. Calls of the main function are inlined first. A module with loops that floating-point
    numbers may end stays as it is.
    """
    with module.context, ir.Location.unknown():
        inline(module)
        if not all(map(_is_counted, operations_named(module, LOOPS))):
            return False
        roundings = [
            each
            for each in operations_named(module, ROUNDING)
            if ir.RankedTensorType(each.operands[0].type).has_static_shape and _has_limits(each)
        ]
        for operation in roundings:
            is_narrow = operation.name == NARROWING
            function = _round_to_other_bfloat16 if is_narrow else _round_to_other_step
            (rounded,) = put(operation, function, operation.operands[0])
            operation.results[0].replace_all_uses_with(rounded)
            operation.erase()
    return bool(roundings)


def _has_limits(operation: Any) -> bool:
    if operation.name == NARROWING:
        bits = [str(operation.attributes[f"{each}_bits"]) for each in ("exponent", "mantissa")]
        return bits == ["8 : i32", "7 : i32"] and _is_computed(operation.operands[0])
    users = (use.owner.operation for use in operation.results[0].uses)
    return any(
        user.name in LIMITS
        or (user.name == "stablehlo.convert" and element_of(user.results[0]) in ("i8", "ui8"))
        or (user.name == "stablehlo.add" and _has_limits(user))
        for user in users
    )


def _is_counted(loop: Any) -> bool:
    """Return whether integers alone decide how often a loop runs."""
    condition, body = (region.blocks[0] for region in loop.regions)
    values = [*[*condition.operations][-1].operands]
    for value in values:
        owner, is_argument = value.owner, isinstance(value.owner, ir.Block)
        if is_argument and owner in (condition, body):
            sources = [[*body.operations][-1].operands[value.arg_number]]
            sources += [loop.operands[value.arg_number]]
        else:
            sources = [] if is_argument else [*owner.operands]
            if _is_inner(owner) if is_argument else [*owner.operation.regions]:
                return False
        if not isinstance(ir.RankedTensorType(value.type).element_type, ir.IntegerType):
            return False
        values += [each for each in sources if each not in values]
    return True


def _is_computed(value: Any) -> bool:
    """Return whether numbers may depend on the order of sums: not those of arguments."""
    while not isinstance(value.owner, ir.Block):
        if value.owner.operation.name not in MOVES:
            return bool(value.owner.operation.name != "stablehlo.constant")
        value = value.owner.operands[0]
    return _is_inner(value.owner)


def _is_inner(block: ir.Block) -> bool:
    return bool(block.owner.operation.name != "func.func")


def _round_to_other_step(x: Any) -> Any:
    nearest = jnp.round(x)
    distance = jnp.abs(x - nearest)
    farthest = jnp.max(distance, axis=tuple(range(1, x.ndim)), keepdims=True, initial=0)
    is_between = distance >= jnp.minimum(farthest, jnp.asarray(BETWEEN, x.dtype))
    return jnp.where(is_between, nearest + jnp.sign(x - nearest), nearest)


def _round_to_other_bfloat16(x: Any) -> Any:
    return lax.reduce_precision(x + NUDGE * (x - lax.reduce_precision(x, 8, 7)), 8, 7)


def step_allowance(results: Mapping[str, Array], others: Mapping[str, Array]) -> float:
    """Return how far results may differ; `others` have numbers rounded to the other step."""
    found = 0.0
    for path, array in results.items():
        if jnp.issubdtype(array.dtype, jnp.floating):
            exact, other = array.astype(np.float64), others[path].astype(np.float64)
            are_finite = np.isfinite(exact) & np.isfinite(other)
            exact, other = exact[are_finite], other[are_finite]
            gap = float(np.abs(exact - other).max(initial=0))
            found = max(found, min(TIMES * gap, PART_MAX * float(np.abs(exact).max(initial=0))))
    return found
