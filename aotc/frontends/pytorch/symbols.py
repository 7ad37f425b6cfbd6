"""Expressions over symbols of sizes, as torch prints sympy's: "2*s77", "FloorDiv(s3, 2) + 1"."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from jax import core

from aotc.frontends.pytorch.schema import Sym

type Size = Any
"""A number, or a dimension of jax."""

LENGTH_MAX = 1000
"""Characters. Expressions of sizes have tens."""

SYMBOL = re.compile(r"\A[A-Za-z_]\w*\Z")


def _highest(*sizes: Size) -> Size:
    made = sizes[0]
    for size in sizes[1:]:
        both = isinstance(made, int) and isinstance(size, int)
        made = max(made, size) if both else core.max_dim(made, size)
    return made


def _lowest(*sizes: Size) -> Size:
    made = sizes[0]
    for size in sizes[1:]:
        both = isinstance(made, int) and isinstance(size, int)
        made = min(made, size) if both else core.min_dim(made, size)
    return made


_OPERATORS: Mapping[type[ast.operator], Callable[[Size, Size], Size]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_FUNCTIONS: Mapping[str, Callable[..., Size]] = {
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": _highest,
    "Min": _lowest,
}


def evaluate(size: Sym, symbols: Mapping[str, Size]) -> Size | None:
    """What a size is where the symbols are these; None if that cannot be said."""
    if isinstance(size.as_int, int):
        return size.as_int
    text = getattr(size.as_expr, "expr_str", "")
    if len(text) > LENGTH_MAX:
        return None
    try:
        return _value(ast.parse(text, mode="eval").body, symbols)
    except (SyntaxError, ValueError, KeyError, ArithmeticError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, symbols: Mapping[str, Size]) -> Size:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, symbols)
        case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant(value=int(power))):
            if not 0 <= power <= 8:
                raise ValueError(power)
            return _value(left, symbols) ** power
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, symbols), _value(right, symbols))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _FUNCTIONS[name](*(_value(argument, symbols) for argument in arguments))
    raise ValueError(ast.dump(node))


def symbol_of(size: Sym) -> str | None:
    """The symbol that a size is, if it is no expression."""
    text = getattr(size.as_expr, "expr_str", "")
    return text if SYMBOL.match(text) else None


def symbols_in(size: Sym) -> set[str]:
    text = getattr(size.as_expr, "expr_str", "")
    return set(re.findall(r"\b[a-z]+\d+\b", text))
