"""Rounds the other factors of products with quantized weights to 8 bits, in every call.

A row of numbers that a product sums over has a scale of its own, as in qwix 0.1.8: its largest
absolute value divided by 127.5. With static scales, all rows have the one that was calibrated, and
larger numbers become the largest. Numbers are rounded half to even. Unlike there, -128 is not used:
the largest number of a row lies between -127 and -128 if it is negative, and an engine whose
division is off by a bit would take the other one. The product is one of integers with sums of 32
bits, which are multiplied by the scales of both factors.
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir

from aotc.compile.mlir.jax_functions import put
from aotc.compile.mlir.mlir_context import state_type
from aotc.compile.precision.quantized_numbers import SCALE_MIN, STEPS
from aotc.compile.precision.weight_products import (
    Axes,
    DimensionNumbers,
    matrix_products,
)


@lru_cache(maxsize=256)
def integer_product(
    place: int, numbers: DimensionNumbers, axes: Axes, contracted: Axes, unit: float | None = None
) -> Callable[..., Any]:
    """Return the function of an activation, a weight and its scales.

    `axes` has the axes of the weight in their order in the product, `contracted` those that it sums
    over. `unit` is the static scale of the activation, or None.
    """
    bound, _, largest = STEPS["int8"]

    def multiplied(x: Any, weight: Any, scale: Any) -> Any:
        def product(x: Any, weight: Any, result: Any) -> Any:
            turned = lax.transpose(weight, axes)
            factors = (x, turned) if place else (turned, x)
            return lax.dot_general(*factors, numbers, preferred_element_type=result)

        summed = numbers[0][1 - place]
        # Integers have no NaN, and XLA's fast maximum ignores it: a sum keeps it, for the scale.
        invalid = jnp.sum(x - x, summed, keepdims=True)
        if unit is None:
            step = (jnp.max(jnp.abs(x), summed, keepdims=True) + invalid) / np.float32(bound)
            step = lax.select(step < np.float32(SCALE_MIN), jnp.ones_like(step), step)
            scaled = x / step
        else:
            step, scaled = invalid + np.float32(unit), x / np.float32(unit)
        integers = lax.round(scaled, lax.RoundingMethod.TO_NEAREST_EVEN)
        integers = lax.clamp(np.float32(-largest), integers, np.float32(largest))
        sums = product(integers.astype(np.int8), weight, np.int32)
        # Of one number each: the scales of every row and column multiplied.
        by = product(step, lax.expand_dims(scale, contracted), np.float32)
        return sums.astype(np.float32) * by

    return multiplied


def keep_largest_factors(module: ir.Module, parameters: Collection[int]) -> list[int]:
    """Let a module return the largest absolute number of each product's other factor alone.

    Returns the parameters that are the weights of these products, in the order of the results.
    """
    products = matrix_products(module, parameters)
    with module.context, ir.Location.unknown():
        main = ir.SymbolTable(module.operation)["main"]
        returned = main.regions[0].blocks[0].operations[-1]
        found = [put(each.operation, _largest, each.activation)[0] for each in products]
        with ir.InsertionPoint(returned):
            ir.Operation.create("func.return", operands=found)
        returned.operation.erase()
        state_type(main)
        if "res_attrs" in main.attributes:
            del main.attributes["res_attrs"]
    return [each.parameter for each in products]


def _largest(x: Any) -> Any:
    return jnp.max(jnp.abs(x), initial=0)


def unit_of(largest: float) -> float:
    """Return the static scale for factors of at most this absolute value."""
    unit = np.float32(largest) / np.float32(STEPS["int8"][0])
    return 1.0 if unit < SCALE_MIN else float(unit)
