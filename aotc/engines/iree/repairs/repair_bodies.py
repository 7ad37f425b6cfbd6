"""Repairs as functions of jax, in place of the operations that are repaired."""

from collections.abc import Callable
from typing import Any

from aotc.compile.mlir.jax_functions import put

SCALAR_BODIES = frozenset(
    f"stablehlo.{name}"
    for name in ("map", "reduce", "reduce_window", "scatter", "select_and_scatter")
)
"""Operations whose regions work on single numbers."""

FLOATS = ("f16", "bf16", "f32", "f64")
BITS = {f"{sign}i{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
"""Widths of integers, in bits."""


class UnrepairableError(Exception):
    """An operation that would have to be repaired where it cannot be."""


def replace(operation: Any, function: Callable[..., Any]) -> None:
    """Put a function of its operands in the place of an operation of one result."""
    (given,) = operation.results
    (made,) = put(operation, function, *operation.operands)
    given.replace_all_uses_with(made)
    operation.erase()


def within(operation: Any) -> str:
    """Return the operation in whose function of single numbers this one lies; "" if in none."""
    parent = operation.parent
    while parent is not None:
        if parent.name in SCALAR_BODIES:
            return str(parent.name)
        parent = parent.parent
    return ""
