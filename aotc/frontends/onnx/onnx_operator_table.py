"""Operators by domain and name, as the modules of `operators` register them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aotc.frontends.onnx.onnx_graph_reader import ONNX

type Value = Any
"""What an edge carries: an array that is known while tracing (numpy's; of Python objects where it
holds sizes that are symbolic), one that is not (jax's), a list of values for a sequence, `None` for
an optional that is empty or an input that is left out."""


@dataclass(frozen=True, slots=True)
class Operator:
    """The implementation of an operator.

    `function` takes a `Call` and the values of its inputs, and returns one value, or a tuple with
    one for each output; None for an operator that is replaced by its body, as onnx defines it.
    `deciding` are positions of inputs that determine the shape of a result and have to be known.
    """

    function: Callable[..., Any] | None
    deciding: frozenset[int]


OPERATORS: dict[tuple[str, str], Operator] = {}


def operator(
    *names: str, domain: str = ONNX, deciding: tuple[int, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as these operators."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            OPERATORS[domain, name] = Operator(function, frozenset(deciding))
        return function

    return register


def add_expanded(*names: str, domain: str = ONNX, deciding: tuple[int, ...] = ()) -> None:
    """Register operators that are replaced by the body which onnx defines for them."""
    for name in names:
        OPERATORS[domain, name] = Operator(None, frozenset(deciding))
