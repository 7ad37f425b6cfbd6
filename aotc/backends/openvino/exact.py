"""What OpenVINO computes as plain JAX does."""

from __future__ import annotations

from aotc.backends.onnx_graphs.graph import Graph
from aotc.backends.onnx_graphs.program import Block, UnsupportedError

ELEMENTS = ("i1", "i8", "ui8", "i32", "f32")

ABSENT = ("BitCast",)
"""Operators of our graphs that OpenVINO does not read."""


def require_exact(program: Block, graph: Graph) -> None:
    """Raises UnsupportedError, which names the operation, for what OpenVINO computes otherwise."""
    for value in program.arguments:
        if value.element not in ELEMENTS:
            raise UnsupportedError(f"a parameter of {value.element}")
    for operation in program.walk():
        for value in operation.results:
            if value.element not in ELEMENTS:
                raise UnsupportedError(f"{operation.name} of {value.element}")
    for node in graph.walk():
        if node.operator in ABSENT:
            raise UnsupportedError(f"{node.origin}, for which OpenVINO has no {node.operator}")
