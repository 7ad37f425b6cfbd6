"""Expressions over symbols of sizes, in the form in which torch writes sympy's.

For example "Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(1))".
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from jax import core
from jax.export import symbolic_shape

from aotc.frontends.pytorch.torch_schema import Sym, TensorMeta

type Size = Any
"""A number, or a dimension of jax."""

LENGTH_MAX = 4000
"""Characters. Expressions of sizes have some hundred."""

POWER_MAX = 8

NUMBER_MAX = 2**62
"""Beyond, numbers are no sizes: powers of powers have more digits than memory."""

TERMS_MAX = 1000
"""Products that an expression has when its brackets are multiplied out, as jax does at once: a
power of a sum of 60 symbols has billions.
"""

SYMBOL = re.compile(r"\A(?:Symbol\('([A-Za-z_]\w*)'(?:, \w+=\w+)*\)|([A-Za-z_]\w*))\Z")


def _extreme(
    of_numbers: Callable[..., Size], of_dimensions: Callable[[Size, Size], Size]
) -> Callable[..., Size]:
    def chosen(made: Size, size: Size) -> Size:
        both = isinstance(made, int | float) and isinstance(size, int | float)
        return of_numbers(made, size) if both else of_dimensions(made, size)

    return lambda *sizes: reduce(chosen, sizes)


highest, lowest = _extreme(max, core.max_dim), _extreme(min, core.min_dim)


def _power(base: Size, exponent: Size) -> Size:
    if not isinstance(exponent, int) or not 0 <= exponent <= POWER_MAX:
        raise ValueError(exponent)
    return base**exponent


_FUNCTIONS: Mapping[str, Callable[..., Size]] = {
    "Add": lambda *sizes: sum(sizes[1:], sizes[0]),
    "CleanDiv": operator.floordiv,
    "FloorDiv": operator.floordiv,
    "Max": highest,
    "Min": lowest,
    "Mod": operator.mod,
    "Mul": lambda *sizes: math.prod(sizes[1:], start=sizes[0]),
    "Pow": _power,
    "PythonMod": operator.mod,
}


def evaluate(size: Sym, symbols: Mapping[str, Size]) -> Size | None:
    """Return a size for these values of the symbols; None if it is not determined."""
    if isinstance(size.as_int, int):
        return size.as_int
    text = _text(size)
    if len(text) > LENGTH_MAX:
        return None
    try:
        body = ast.parse(text, mode="eval").body
        return _bounded_value(body, symbols) if _terms(body) <= TERMS_MAX else None
    except (
        SyntaxError,
        TypeError,
        ValueError,
        KeyError,
        ArithmeticError,
        RecursionError,
        MemoryError,
    ):
        return None


def _terms(node: ast.expr) -> int:
    """Return how many terms an expression has at most, or more than `TERMS_MAX`."""
    match node:
        case ast.Call(func=ast.Name(id="Symbol" | "Integer")):
            return 1
        case ast.Call(func=ast.Name(id="Pow"), args=[base, exponent]):
            power, terms, most = _integer(exponent), _terms(base), 1
            for _ in range(power if power is not None and 0 < power < POWER_MAX else POWER_MAX):
                most = min(most * terms, TERMS_MAX + 1)
        case ast.Call(func=ast.Name(id="Mul"), args=factors):
            most = 1
            for factor in factors:
                most = min(most * _terms(factor), TERMS_MAX + 1)
        case ast.Call(args=arguments):
            most = sum(map(_terms, arguments))
        case _:
            return 1
    return min(most, TERMS_MAX + 1)


def _integer(node: ast.expr) -> int | None:
    """Return the number that a node writes, if it is one."""
    match node:
        case ast.Call(
            func=ast.Name(id="Integer"),
            args=[
                ast.Constant(value=int(number))
                | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number)))
            ],
            keywords=[],
        ) if not isinstance(number, bool):
            is_negative = isinstance(node.args[0], ast.UnaryOp)
            return -number if is_negative else number
    return None


def _bounded_value(node: ast.expr, symbols: Mapping[str, Size]) -> Size:
    made = _value(node, symbols)
    if isinstance(made, int) and abs(made) > NUMBER_MAX:
        raise ValueError(made)
    return made


def _value(node: ast.expr, symbols: Mapping[str, Size]) -> Size:
    match node:
        case (
            ast.Name(id=name)
            | ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))])
        ):
            return symbols[name]
        case ast.Call(func=ast.Name(id="Integer")) if (number := _integer(node)) is not None:
            return number
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _FUNCTIONS[name](*(_bounded_value(argument, symbols) for argument in arguments))
    raise ValueError(ast.dump(node))


def _text(size: Sym) -> str:
    return getattr(size.as_expr, "expr_str", "")


def symbol_of(size: Sym) -> str | None:
    """Return the symbol that a size is, if it is no expression."""
    found = SYMBOL.match(_text(size))
    return None if found is None else found[1] or found[2]


def solve(size: Sym, found: Size, symbols: Mapping[str, Size]) -> dict[str, int]:
    """Return the value of the one unknown symbol if the size is linear in it, else nothing.

    It is rounded down where no whole number gives the size that was found.
    """
    unknown = symbols_in(size) - symbols.keys()
    if len(unknown) != 1 or not isinstance(found, int):
        return {}
    (name,) = unknown
    start, second, third = (evaluate(size, {**symbols, name: n}) for n in range(3))
    if not (isinstance(start, int) and isinstance(second, int) and isinstance(third, int)):
        return {}
    step = second - start
    return {name: (found - start) // step} if step and third - second == step else {}


def size_text(size: Sym) -> str:
    """Return an expression for messages: "4*s77 + 1"."""
    if isinstance(size.as_int, int):
        return str(size.as_int)
    alone = symbol_of(size)
    names = sorted(symbols_in(size)) if alone is None else [alone]
    try:
        made = evaluate(size, dict(zip(names, symbolic_shape(", ".join(names)), strict=True)))
    except ValueError:
        made = None
    return ascii(_text(size))[:200] if made is None else str(made)


def symbols_in(size: Sym) -> set[str]:
    """Return the names of the symbols in a size."""
    return set(re.findall(r"Symbol\('(\w+)'", _text(size)))


def _sample(meta: TensorMeta) -> list[tuple[int, int]] | None:
    """Return sizes and strides for sample numbers of symbols, whose relations hold in general."""
    names = sorted(set().union(*map(symbols_in, (*meta.sizes, *meta.strides))))
    symbols = {name: 101 + 12 * i for i, name in enumerate(names)}
    sizes = [evaluate(size, symbols) for size in meta.sizes]
    strides = [evaluate(stride, symbols) for stride in meta.strides]
    if len(sizes) != len(strides):
        return None
    pairs = [
        (size, stride)
        for size, stride in zip(sizes, strides, strict=True)
        if size is not None and stride is not None
    ]
    return pairs if len(pairs) == len(sizes) else None


def same_strides(a: TensorMeta, b: TensorMeta) -> bool:
    """Return whether two tensors have equal sizes and strides; False where these are unknown."""
    one, other = _sample(a), _sample(b)
    return one is not None and one == other


def contiguous(meta: TensorMeta) -> bool:
    """Return whether elements follow each other in memory, the last axis fastest."""
    pairs = _sample(meta)
    if pairs is None:
        return False
    expected = 1
    for size, stride in reversed(pairs):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
