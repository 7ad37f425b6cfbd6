"""Repairs as text of StableHLO: a body's operations take the place of the one that is repaired.

They are put in line, not called, so that they work inside the functions of a `reduce` or `sort` as
well, where IREE takes no calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

SCALAR_BODIES = frozenset(
    f"stablehlo.{name}"
    for name in ("map", "reduce", "reduce_window", "scatter", "select_and_scatter", "sort")
)
"""Operations whose regions work on single numbers."""

FLOATS = ("f16", "bf16", "f32", "f64")
BITS = {f"{sign}i{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
"""Widths of integers, in bits."""

FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


class UnrepairableError(Exception):
    """An operation that would have to be repaired where it cannot be."""


def put(operation: Any, body: str, operands: Sequence[Any], given: Sequence[str]) -> list[Any]:
    """Insert a body before an operation, and return its results, which have the types `given`.

    Its arguments are %a0, %a1 and so on, its results %r, or %r0, %r1 and so on.
    """
    taken = ", ".join(f"%a{place}: {value.type}" for place, value in enumerate(operands))
    made = ["%r"] if len(given) == 1 else [f"%r{place}" for place in range(len(given))]
    types = ", ".join(given)
    text = f"func.func @f({taken}) -> ({types}) {{\n{body}\n return {', '.join(made)} : {types}\n}}"
    parsed = ir.Module.parse(text)  # must outlive its operations
    block = parsed.body.operations[0].regions[0].blocks[0]
    with ir.InsertionPoint(operation):
        return cloned(block, operands)


def replace(operation: Any, body: str) -> None:
    """Put a body, which gives %r, in the place of an operation of one result."""
    (given,) = operation.results
    (made,) = put(operation, body, list(operation.operands), [str(given.type)])
    given.replace_all_uses_with(made)
    operation.erase()


def cloned(block: Any, arguments: Sequence[Any]) -> list[Any]:
    """Insert a copy of a block's operations and return its results for other arguments."""
    known = dict(zip(block.arguments, arguments, strict=True))
    *operations, returned = block.operations
    for each in operations:
        copy = each.operation.clone()
        for index, operand in enumerate(each.operation.operands):
            copy.operands[index] = known.get(operand, operand)
        known.update(zip(each.operation.results, copy.results, strict=True))
    return [known.get(value, value) for value in returned.operation.operands]


def within(operation: Any) -> str:
    """Return the operation in whose function of single numbers this one lies; "" if in none."""
    parent = operation.parent
    while parent is not None:
        if parent.name in SCALAR_BODIES:
            return str(parent.name)
        parent = parent.parent
    return ""


def kind_of(value: Any) -> tuple[str, str]:
    """Return a value's type, and that of its elements."""
    return str(value.type), str(ir.RankedTensorType(value.type).element_type)


def shape_of(value: Any) -> list[int]:
    """Return the sizes of a value."""
    return list(ir.RankedTensorType(value.type).shape)


def tensor(shape: Sequence[int], element: str) -> str:
    """Return the type of an array."""
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def like(kind: str, element: str) -> str:
    """Return the type of the same shape with another element."""
    shape, _, _ = kind.removeprefix("tensor<").removesuffix(">").rpartition("x")
    return f"tensor<{shape}x{element}>" if shape else f"tensor<{element}>"


def bools(kind: str) -> str:
    """Return the type of booleans of the same shape."""
    return like(kind, "i1")


def pair(kind: str) -> str:
    """Return the type of a comparison."""
    return f"({kind}, {kind}) -> {bools(kind)}"


def chosen(kind: str) -> str:
    """Return the type of a select."""
    return f"{bools(kind)}, {kind}"


def constants(kind: str, **values: str) -> str:
    """Return lines that define constants of a type."""
    return "".join(
        f"    %{name} = stablehlo.constant dense<{value}> : {kind}\n"
        for name, value in values.items()
    )
