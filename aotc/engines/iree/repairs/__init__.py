"""What IREE 3.13.0 computes otherwise than XLA, in operations that both compute the same.

Each module here holds the repairs of one kind of operation; tests/engines compares all of them with
plain JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from jaxlib.mlir import ir

from aotc.engines.iree.repairs import (
    angle_repairs,
    float_repairs,
    index_repairs,
    mask_repairs,
    sort_repairs,
    sum_repairs,
)
from aotc.engines.iree.repairs.repair_text import UnrepairableError, kind_of

__all__ = ["UnrepairableError", "repair"]

type Repairs = Mapping[str, Callable[[Any], None]]

_OF_COMPLEX = (
    "stablehlo.cosine",
    "stablehlo.divide",
    "stablehlo.exponential",
    "stablehlo.exponential_minus_one",
    "stablehlo.log",
    "stablehlo.log_plus_one",
    "stablehlo.logistic",
    "stablehlo.power",
    "stablehlo.sine",
    "stablehlo.tan",
    "stablehlo.tanh",
)
"""Functions that lose signs of zeros, large and small numbers, and angles, if they are complex."""


def _refuse_complex(operation: Any) -> None:
    if kind_of(operation.results[0])[1].startswith("complex"):
        raise UnrepairableError(
            f"{operation.name} of complex numbers, which XLA has: name xla after iree in `engines`"
        )


_FIRST: Repairs = {
    "stablehlo.composite": sort_repairs.composite,
    "stablehlo.dot_general": sum_repairs.long_product,
    "stablehlo.multiply": mask_repairs.multiply,
    "stablehlo.reduce_window": sum_repairs.windows,
}
"""Repairs that are made of operations which are repaired in turn."""

_SECOND: Repairs = {
    "stablehlo.atan2": float_repairs.atan2,
    "stablehlo.cbrt": float_repairs.cbrt,
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
    "stablehlo.scatter": index_repairs.scatter,
    "stablehlo.select_and_scatter": sum_repairs.refuse,
    "stablehlo.sine": angle_repairs.angle,
    "stablehlo.sort": sort_repairs.sort,
    "stablehlo.tan": angle_repairs.angle,
}


def repair(module: Any, weights: Collection[int] = ()) -> None:
    """Repair a module in place. weights: places of bound parameters. Raises UnrepairableError."""
    with module.context, ir.Location.unknown():
        sort_repairs.keep_arguments(module, weights)
        sum_repairs.keep_known(module)
        _put_in_other_words(module, {"stablehlo.dot_general": mask_repairs.product})
        _put_in_other_words(module, dict.fromkeys(_OF_COMPLEX, _refuse_complex))
        _put_in_other_words(module, _FIRST)
        sort_repairs.number_sorts(module)
        _put_in_other_words(module, _SECOND)


def _put_in_other_words(module: Any, repairs: Repairs) -> None:
    for operation in _found(module, repairs):
        repairs[operation.name](operation)


def _found(module: Any, repairs: Repairs) -> list[Any]:
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name in repairs:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
