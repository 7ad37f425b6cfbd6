"""Rounds the other factors of products with quantized weights to 8 bits, in every call.

A row of numbers that a product sums over has a scale of its own, as in qwix 0.1.8: its largest
absolute value divided by 127.5. Numbers are rounded half to even. Unlike there, -128 is not used:
the largest number of a row lies between -127 and -128 if it is negative, and an engine whose
division is off by a bit would take the other one. The product is one of integers with sums of 32
bits, which are multiplied by the scales of both factors.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir

from aotc.compile.mlir.jax_functions import put
from aotc.compile.precision.quantized_numbers import SCALE_MIN, STEPS, Scheme
from aotc.compile.precision.weight_products import (
    Axes,
    DimensionNumbers,
    MatrixProduct,
)


def multiply_integers(
    product: MatrixProduct, weight: ir.Value, scale: ir.Value, scheme: Scheme
) -> None:
    """Replace a product by one of integers; `weight` and `scale` are its quantized weight."""
    place, numbers = product.place, product.dimension_numbers
    function = integer_product(place, numbers, product.axes, scheme.contracted)
    (made,) = put(product.operation, function, product.activation, weight, scale)
    product.operation.results[0].replace_all_uses_with(made)
    product.operation.erase()


@lru_cache(maxsize=256)
def integer_product(
    place: int, numbers: DimensionNumbers, axes: Axes, contracted: Axes
) -> Callable[..., Any]:
    """Return the function of an activation, a weight and its scales.

    `axes` has the axes of the weight in their order in the product, `contracted` those that it sums
    over.
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
        step = (jnp.max(jnp.abs(x), summed, keepdims=True) + invalid) / np.float32(bound)
        step = lax.select(step < np.float32(SCALE_MIN), jnp.ones_like(step), step)
        integers = lax.round(x / step, lax.RoundingMethod.TO_NEAREST_EVEN)
        integers = lax.clamp(np.float32(-largest), integers, np.float32(largest))
        sums = product(integers.astype(np.int8), weight, np.int32)
        # Of one number each: the scales of every row and column multiplied.
        by = product(step, lax.expand_dims(scale, contracted), np.float32)
        return sums.astype(np.float32) * by

    return multiplied
