"""Rounds activations of plain JAX to 8 bits; shares the search for products with what it checks."""

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir

from aotc.compile.precision.activations import insert
from aotc.compile.precision.weight_products import Axes, matrix_products

LARGEST = 127.5
"""What the largest absolute value of a row becomes before it is rounded, to at most 127."""

TINY = 1.0842021724855044e-19
"""The square root of the smallest normal number of float32: smaller scales are replaced by 1."""


def round_activations(module: ir.Module, weights: Collection[int]) -> None:
    """Round the other factors of products with the weights that these parameters are.

    They stay floating-point numbers, and products are not of integers.
    """
    for product in matrix_products(module, weights):
        function = _rounding(product.dimension_numbers[0][1 - product.place])
        rounded = insert(function, (product.activation,), product.operation)
        product.operation.operands[1 - product.place] = rounded


@lru_cache(maxsize=256)
def _rounding(summed: Axes) -> Callable[[Any], Any]:
    def rounded(x: Any) -> Any:
        unit = jnp.max(jnp.abs(x), axis=summed, keepdims=True) / np.float32(LARGEST)
        unit = jnp.where(unit < np.float32(TINY), np.float32(1), unit)
        return jnp.clip(jnp.round(x / unit), -127, 127) * unit

    return rounded
