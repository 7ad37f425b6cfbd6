"""Numerical workarounds for operations that IREE 3.13.0 computes differently from XLA.

Each module has those of one group of operations; tests/engines compares all with plain JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from jaxlib.mlir import ir

from aotc.engines.iree.repairs import (
    angle_repairs,
    float_repairs,
    index_repairs,
    sort_repairs,
    sum_repairs,
)
from aotc.engines.iree.repairs.repair_text import UnrepairableError

__all__ = ["UnrepairableError", "repair"]

type Repairs = Mapping[str, Callable[[Any], None]]


def _refuse(operation: Any) -> None:
    raise UnrepairableError(f"{operation.name}, which XLA has: name xla after iree in `engines`")


_REFUSED = (
    "stablehlo.atan2",
    "stablehlo.cbrt",
    "stablehlo.select_and_scatter",
    "stablehlo.tan",
)


_FIRST: Repairs = {
    "stablehlo.composite": sort_repairs.composite,
    "stablehlo.dot_general": sum_repairs.long_product,
    "stablehlo.multiply": float_repairs.masked,
}
"""Repairs that are made of operations which are repaired in turn."""

_SECOND: Repairs = {
    **dict.fromkeys(_REFUSED, _refuse),
    "stablehlo.convert": float_repairs.convert,
    "stablehlo.convolution": sum_repairs.convolution,
    "stablehlo.cosine": angle_repairs.angle,
    "stablehlo.dot_general": sum_repairs.product,
    "stablehlo.dynamic_slice": index_repairs.dynamic_slice,
    "stablehlo.dynamic_update_slice": index_repairs.dynamic_update_slice,
    "stablehlo.exponential_minus_one": float_repairs.refuse_double,
    "stablehlo.gather": index_repairs.gather,
    "stablehlo.log_plus_one": float_repairs.refuse_double,
    "stablehlo.power": float_repairs.power,
    "stablehlo.reduce": sum_repairs.total,
    "stablehlo.reduce_window": sum_repairs.require_windows,
    "stablehlo.scatter": index_repairs.scatter,
    "stablehlo.sine": angle_repairs.angle,
    "stablehlo.sort": sort_repairs.sort,
}


def repair(module: Any, weights: Collection[int] = ()) -> None:
    """Repair a module in place. weights: places of bound parameters. Raises UnrepairableError."""
    with module.context, ir.Location.unknown():
        sort_repairs.keep_arguments(module, weights)
        sum_repairs.keep_known(module)
        _put_in_other_words(module, {"stablehlo.dot_general": float_repairs.masked_product})
        _put_in_other_words(module, _FIRST)
        sort_repairs.number_sorts(module)
        _put_in_other_words(module, _SECOND)


def _put_in_other_words(module: Any, repairs: Repairs) -> None:
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name in repairs:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for operation in found:
        repairs[operation.name](operation)
