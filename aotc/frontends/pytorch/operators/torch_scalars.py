"""Arithmetic with sizes: Python numbers where sizes are known, jax's dimensions where they vary."""

import math
import operator
from collections.abc import Callable
from typing import Any

from aotc.frontends.pytorch.torch_refusals import Unsupported
from aotc.frontends.pytorch.torch_symbols import highest, lowest

type Scalar = Any


def _whole(function: Callable[[float], int]) -> Callable[..., Scalar]:
    def run(*values: Scalar) -> Scalar:
        (value,) = values
        return function(value) if isinstance(value, float) else value

    return run


def _divided(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a / b
    raise Unsupported("a fraction of sizes that vary; export with fixed sizes")


def _to_float(a: Scalar) -> Scalar:
    if isinstance(a, int | float):
        return float(a)
    raise Unsupported("a number with a fraction made of sizes that vary; export with fixed sizes")


def _choice(b: Scalar, t: Scalar, f: Scalar) -> Scalar:
    return t if b else f


FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            *("add", "and_", "eq", "floordiv", "ge", "gt", "le", "lt", "mod", "mul", "ne", "neg"),
            *("or_", "pos", "pow", "sub"),
        )
    },
    "_operator.truediv": _divided,
    "math.ceil": _whole(math.ceil),
    "math.floor": _whole(math.floor),
    "math.trunc": _whole(math.trunc),
    "round": _whole(round),
    "torch.sym_float": _to_float,
    "torch.sym_int": _whole(math.trunc),
    "torch.sym_ite": _choice,
    "torch.sym_max": highest,
    "torch.sym_min": lowest,
    "torch.sym_not": operator.not_,
    "math.sqrt": lambda a: math.sqrt(_to_float(a)),
    "torch._sym_sqrt": lambda a: math.sqrt(_to_float(a)),
}
"""By the target of a node. Arguments come in order, for they have no names."""
