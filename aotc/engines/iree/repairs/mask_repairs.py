"""Products with booleans as numbers, in which XLA chooses: what is masked may be no number."""

from __future__ import annotations

from math import prod
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.engines.iree.repairs.repair_text import chosen, constants, kind_of, put, shape_of, within

_MASKED = ("f16", "f32", "f64")
"""Numbers whose products with booleans XLA selects."""


def multiply(operation: Any) -> None:
    """Choose between a number and 0, by the booleans of the other factor."""
    if within(operation) or kind_of(operation.results[0])[1] not in _MASKED:
        return
    for place, factor in enumerate(operation.operands):
        condition = _condition(factor)
        if condition is None:
            continue
        value = operation.operands[1 - place]
        made = _selected(operation, condition, value)
        operation.results[0].replace_all_uses_with(made)
        operation.erase()
        return


def product(operation: Any) -> None:
    """Choose before a product that multiplies numbers with those in their place and adds them."""
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    one = [*numbers.lhs_batching_dimensions, *numbers.lhs_contracting_dimensions]
    other = [*numbers.rhs_batching_dimensions, *numbers.rhs_contracting_dimensions]
    ranks = {len(shape_of(operand)) for operand in operation.operands}
    if one != other or ranks != {len(one)}:
        return
    for place, factor in enumerate(operation.operands):
        condition = _condition(factor)
        if condition is not None and kind_of(factor)[1] in ("f32", "f64"):
            value = operation.operands[1 - place]
            operation.operands[1 - place] = _selected(operation, condition, value)
            return


def _condition(value: Any) -> Any:
    """The booleans that a value is as numbers; None of another, and where XLA sees none: it knows
    constants as numbers, and repeats numbers instead of booleans.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.convert":
        return None
    condition = owner.operands[0]
    if kind_of(condition)[1] != "i1":
        return None
    maker = condition.owner
    if isinstance(maker, ir.Block):
        return condition
    if maker.name == "stablehlo.constant":
        return None
    if maker.name == "stablehlo.broadcast_in_dim":
        return condition if prod(shape_of(maker.operands[0])) == prod(shape_of(condition)) else None
    return condition


def _selected(operation: Any, condition: Any, value: Any) -> Any:
    kind = str(value.type)
    body = constants(kind, zero="0.0") + (
        f"    %r = stablehlo.select %a0, %a1, %zero : {chosen(kind)}\n"
    )
    (made,) = put(operation, body, [condition, value], [kind])
    return made
