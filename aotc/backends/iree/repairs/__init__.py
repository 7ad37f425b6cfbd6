"""What IREE 3.13.0 computes otherwise than XLA, in operations that both compute the same.

Each module here holds the repairs of one kind of operation; tests/engines compares all of them with
plain JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from jaxlib.mlir import ir

from aotc.backends.iree.repairs import angles, complexes, floats, masks, order, places, sums
from aotc.backends.iree.repairs.words import UnrepairableError

__all__ = ["UnrepairableError", "repair"]

type Repairs = Mapping[str, Callable[[Any], None]]

_FIRST: Repairs = {
    "stablehlo.composite": order.composite,
    "stablehlo.cosine": complexes.refuse,
    "stablehlo.divide": complexes.divide,
    "stablehlo.dot_general": sums.long_product,
    "stablehlo.exponential": complexes.exponential,
    "stablehlo.exponential_minus_one": complexes.refuse,
    "stablehlo.log": complexes.log,
    "stablehlo.log_plus_one": complexes.log_plus_one,
    "stablehlo.logistic": complexes.refuse,
    "stablehlo.multiply": masks.multiply,
    "stablehlo.power": complexes.refuse,
    "stablehlo.reduce_window": sums.windows,
    "stablehlo.sine": complexes.refuse,
    "stablehlo.tan": complexes.refuse,
    "stablehlo.tanh": complexes.refuse,
}
"""Repairs that are made of operations which are repaired in turn."""

_SECOND: Repairs = {
    "stablehlo.atan2": floats.atan2,
    "stablehlo.cbrt": floats.cbrt,
    "stablehlo.convert": floats.convert,
    "stablehlo.convolution": sums.convolution,
    "stablehlo.cosine": angles.angle,
    "stablehlo.dot_general": sums.product,
    "stablehlo.dynamic_slice": places.dynamic_slice,
    "stablehlo.dynamic_update_slice": places.dynamic_update_slice,
    "stablehlo.exponential_minus_one": floats.exponential_minus_one,
    "stablehlo.gather": places.gather,
    "stablehlo.log_plus_one": floats.log_plus_one,
    "stablehlo.power": floats.power,
    "stablehlo.reduce": sums.total,
    "stablehlo.scatter": places.scatter,
    "stablehlo.select_and_scatter": sums.refuse,
    "stablehlo.sine": angles.angle,
    "stablehlo.sort": order.sort,
    "stablehlo.tan": angles.angle,
}


def repair(module: Any, weights: Collection[int] = ()) -> None:
    """Repair a module in place. weights: places of bound parameters. Raises UnrepairableError."""
    with module.context, ir.Location.unknown():
        order.keep_arguments(module, weights)
        sums.keep_known(module)
        _put_in_other_words(module, {"stablehlo.dot_general": masks.product})
        _put_in_other_words(module, _FIRST)
        order.number_sorts(module)
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
