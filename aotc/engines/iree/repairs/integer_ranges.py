"""Between which numbers the integers of an array lie, as far as the operations that made it say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from aotc.engines.iree.repairs.repair_text import BITS, kind_of, shape_of

type Bounds = tuple[int, int]

_DEPTH = 12
"""Operations that are followed backwards."""

_KEEPING = tuple(
    f"stablehlo.{name}"
    for name in (
        "broadcast_in_dim",
        "optimization_barrier",
        "reshape",
        "reverse",
        "slice",
        "transpose",
    )
)
"""Operations that give numbers of their first operand."""


def bounds(value: Any, depth: int = _DEPTH) -> Bounds | None:
    """The least and the largest number that a value can hold; None if nothing is known."""
    owner = value.owner
    if depth == 0 or isinstance(owner, ir.Block) or kind_of(value)[1] not in BITS:
        return None
    if owner.name in _KEEPING:
        return bounds(owner.operands[0], depth - 1)
    known = _KNOWN.get(owner.name)
    return known(owner, depth - 1) if known is not None else None


def components(value: Any, dimension: int, count: int) -> list[Bounds | None]:
    """The bounds of each row of numbers along a dimension of a value."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.concatenate":
        return [bounds(value)] * count
    if ir.IntegerAttr(owner.attributes["dimension"]).value != dimension:
        return [bounds(value)] * count
    return [
        bounds(operand) for operand in owner.operands for _ in range(shape_of(operand)[dimension])
    ]


def _numbers(value: Any, depth: int) -> Any:
    """The numbers of a value that is made of constants; None of one that is not."""
    owner = value.owner
    if depth == 0 or isinstance(owner, ir.Block):
        return None
    if owner.name == "stablehlo.constant":
        return np.asarray(ir.DenseElementsAttr(owner.attributes["value"]))
    if owner.name not in ("stablehlo.add", "stablehlo.broadcast_in_dim", "stablehlo.select"):
        return None
    given = [_numbers(operand, depth - 1) for operand in owner.operands]
    if any(each is None for each in given):
        return None
    if owner.name == "stablehlo.add":
        return given[0] + given[1]
    if owner.name == "stablehlo.select":
        return np.where(*given)
    return np.full(shape_of(value), given[0]) if given[0].ndim == 0 else None


def _constant(owner: Any, depth: int) -> Bounds | None:
    numbers = _numbers(owner.results[0], depth + 1)
    if numbers is None or not numbers.size:
        return None
    return int(numbers.min()), int(numbers.max())


def _iota(owner: Any, depth: int) -> Bounds | None:
    size = shape_of(owner.results[0])[ir.IntegerAttr(owner.attributes["iota_dimension"]).value]
    return 0, max(size - 1, 0)


def _clamp(owner: Any, depth: int) -> Bounds | None:
    low, high = bounds(owner.operands[0], depth), bounds(owner.operands[2], depth)
    if low is None or high is None or low[1] > high[0]:
        return None
    return low[0], high[1]


def _both(owner: Any, depth: int) -> Bounds | None:
    found = [bounds(operand, depth) for operand in owner.operands]
    lows, highs = [each[0] for each in found if each], [each[1] for each in found if each]
    return (min(lows), max(highs)) if all(found) else None


def _select(owner: Any, depth: int) -> Bounds | None:
    """jax's own choice for indices below zero, `i < 0 ? i + n : i`, is i where i is never below."""
    if (known := _constant(owner, depth)) is not None:
        return known
    asked, _, otherwise = owner.operands
    compared = asked.owner
    if not isinstance(compared, ir.Block) and compared.name == "stablehlo.compare":
        direction = str(compared.attributes["comparison_direction"])
        zero = bounds(compared.operands[1], depth)
        if "LT" in direction and zero == (0, 0) and compared.operands[0] == otherwise:
            known = bounds(otherwise, depth)
            if known is not None and known[0] >= 0:
                return known
    found = [bounds(operand, depth) for operand in (owner.operands[1], otherwise)]
    if found[0] is None or found[1] is None:
        return None
    return min(found[0][0], found[1][0]), max(found[0][1], found[1][1])


def _convert(owner: Any, depth: int) -> Bounds | None:
    found, element = bounds(owner.operands[0], depth), kind_of(owner.results[0])[1]
    if found is None:
        return None
    bits = BITS[element] - (not element.startswith("u"))
    least = 0 if element.startswith("u") else -(2**bits)
    return found if least <= found[0] and found[1] < 2**bits else None


_KNOWN: dict[str, Callable[[Any, int], Bounds | None]] = {
    "stablehlo.clamp": _clamp,
    "stablehlo.concatenate": _both,
    "stablehlo.constant": _constant,
    "stablehlo.convert": _convert,
    "stablehlo.iota": _iota,
    "stablehlo.select": _select,
}
