"""Products of float32 numbers as products of bfloat16 ones, with sums and results of float32.

Factors are rounded by `reduce_precision` before they are converted: XLA may drop a conversion to
bfloat16 and back, since it may compute with more digits than a type has, but not that.
"""

from collections.abc import Callable, Collection
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxlib.mlir import ir

from aotc.compile.mlir.jax_functions import element_of, inline, put, shape_of
from aotc.compile.mlir.mlir_context import operations_named, state_type
from aotc.compile.precision import weight_products

PRODUCTS = ("stablehlo.dot_general", *weight_products.CONVOLUTIONS)

KEEPING = frozenset(weight_products.MOVES) - {"stablehlo.convert"}
"""Moves whose results have their operand's type."""


def bfloat16_uses(module: ir.Module, kept: Collection[int]) -> list[frozenset[weight_products.Use]]:
    """Return the uses of each parameter; only in products may it be of bfloat16.

    Products with the weights `kept` are other uses. Calls of the main function are inlined first.
    """
    with module.context, ir.Location.unknown():
        products = _products(module, kept)
        return [
            frozenset(
                weight_products.Product(()) if each in products else weight_products.other_use(each)
                for each, *_ in weight_products.spread(parameter, KEEPING)[1]
            )
            for parameter in _parameters(module)
        ]


def round_factors(module: ir.Module, kept: Collection[int]) -> None:
    """Round the factors of all products but those of `kept` to bfloat16; they stay float32."""
    with module.context, ir.Location.unknown():
        for operation in _products(module, kept):
            _replace_factors(operation, _round)


def multiply_bfloat16(module: ir.Module, stored: Collection[int], kept: Collection[int]) -> int:
    """Let all products but those of `kept` take bfloat16, and parameters `stored` be of bfloat16.

    Returns how many products there are.
    """
    with module.context, ir.Location.unknown():
        products = _products(module, kept)
        for number in stored:
            for value, _ in weight_products.spread(_parameters(module)[number], KEEPING)[0]:
                value.set_type(ir.RankedTensorType.get(shape_of(value), ir.BF16Type.get()))
        for operation in products:
            _replace_factors(operation, _narrow)
            if "precision_config" in operation.attributes:
                del operation.attributes["precision_config"]
        state_type(ir.SymbolTable(module.operation)["main"])
    return len(products)


def _replace_factors(operation: Any, function: Callable[[Any], Any]) -> None:
    for place in range(2):
        if element_of(operation.operands[place]) == "f32":
            operation.operands[place] = put(operation, function, operation.operands[place])[0]


def _round(x: Any) -> Any:
    return lax.reduce_precision(x, 8, 7)


def _narrow(x: Any) -> Any:
    return _round(x).astype(jnp.bfloat16)


def _parameters(module: ir.Module) -> Any:
    return inline(module).regions[0].blocks[0].arguments


def _products(module: ir.Module, kept: Collection[int]) -> list[Any]:
    """Return a module's products of float32, but those with the weights that `kept` numbers.

    Products that state an algorithm are left out.
    """
    parameters = _parameters(module)
    uses = (use for n in kept for use in weight_products.spread(parameters[n], KEEPING)[1])
    others = [operation for operation, *_ in uses]
    return [
        each
        for each in operations_named(module, PRODUCTS)
        if {*map(element_of, (*each.operands[:2], each.results[0]))} == {"f32"}
        and "algorithm" not in each.attributes
        and each not in others
    ]
