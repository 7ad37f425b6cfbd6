"""Rules of the translation: from an operation and its operands to its results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aotc.engines.onnx_graphs.graph_builder import Graph, Tensor
from aotc.engines.onnx_graphs.stablehlo_program import Block, Operation

type Evaluate = Callable[[Graph, Block, Sequence[Tensor]], list[Tensor]]
"""Puts a block into a graph, for these arguments; what the block gives."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The arguments of a rule.

    `operands` are tensors that may stand for larger arrays by broadcasting; `evaluate` is for
    operations with blocks.
    """

    graph: Graph
    operation: Operation
    operands: Sequence[Tensor]
    evaluate: Evaluate

    def whole(self, index: int) -> Tensor:
        """Return an operand as the whole array that it stands for."""
        return self.graph.full(self.operands[index], self.operation.operands[index].shape)

    def edges(self, axes: int) -> list[tuple[int, int]]:
        """Return the padding of a window before and behind so many axes."""
        pads = self.operation.attributes.get("padding")
        spread = np.broadcast_to(0 if pads is None else pads, (axes, 2))
        return [(int(low), int(high)) for low, high in spread]

    def numbers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """Return an attribute that is a list of integers."""
        return tuple(int(each) for each in self.operation.attributes.get(name, default))


def operand_rule(make: Callable[..., Tensor]) -> Callable[[Rule], list[Tensor]]:
    """Return the rule of a function of the graph and the operands as they are."""
    return lambda rule: [make(rule.graph, *rule.operands)]


type Rules = Mapping[str, Callable[[Rule], list[Tensor]]]
"""By the name of the operation."""
