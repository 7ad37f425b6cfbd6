"""Numerical workarounds for operations that IREE 3.13.0 computes differently from XLA.

Each module has those of one group of operations; tests/engines compares all with plain JAX.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from jaxlib.mlir import ir

from aotc.compile.mlir.jax_functions import inline
from aotc.compile.mlir.mlir_context import operations_named
from aotc.engines.iree.repairs import (
    angle_repairs,
    call_repairs,
    float_repairs,
    index_repairs,
    sum_repairs,
)
from aotc.engines.iree.repairs.repair_bodies import UnrepairableError

__all__ = ["UnrepairableError", "repair"]

type Repairs = Mapping[str, Callable[[Any], None]]


_FIRST: Repairs = {
    "stablehlo.dot_general": sum_repairs.long_product,
    "stablehlo.multiply": float_repairs.mask_factor,
}
"""Repairs that are made of operations which are repaired in turn."""

_SECOND: Repairs = {
    "stablehlo.convert": float_repairs.convert,
    "stablehlo.convolution": sum_repairs.convolution,
    "stablehlo.cosine": angle_repairs.angle,
    "stablehlo.dot_general": sum_repairs.product,
    "stablehlo.dynamic_slice": index_repairs.dynamic_slice,
    "stablehlo.dynamic_update_slice": index_repairs.dynamic_slice,
    "stablehlo.gather": index_repairs.gather,
    "stablehlo.power": float_repairs.power,
    "stablehlo.reduce": sum_repairs.total,
    "stablehlo.reduce_window": sum_repairs.require_windows,
    "stablehlo.scatter": index_repairs.scatter,
    "stablehlo.sine": angle_repairs.angle,
}


def repair(module: Any, weights: Collection[int] = ()) -> None:
    """Repair a module in place. weights: places of bound parameters. Raises UnrepairableError."""
    with module.context, ir.Location.unknown():
        _repair_each(module, {"stablehlo.composite": call_repairs.composite})
        inline(module)
        call_repairs.keep_arguments(module, weights)
        sum_repairs.keep_known(module)
        _repair_each(module, {"stablehlo.dot_general": float_repairs.mask_product})
        _repair_each(module, _FIRST)
        _repair_each(module, _SECOND)


def _repair_each(module: Any, repairs: Repairs) -> None:
    for operation in operations_named(module, repairs):
        repairs[operation.name](operation)
