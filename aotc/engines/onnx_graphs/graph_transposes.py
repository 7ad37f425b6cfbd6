"""Transposes moved on towards a graph's results, until they cancel each other or are needed.

ONNX's convolutions and pools have channels first. A program that has them last gets a transpose
before and behind each of them, and what lies between computes each number alone.
"""

from dataclasses import replace
from math import prod
from typing import NamedTuple

from aotc.engines.onnx_graphs.graph_builder import Graph, Node, Tensor, moves_nothing, names_in

ALONE = frozenset({
    "Abs", "Add", "And", "Cast", "Ceil", "Cos", "Div", "Equal", "Erf", "Exp", "Floor", "Gelu",
    "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Log", "Max", "Min",
    "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin",
    "Sqrt", "Sub", "Tanh", "Where", "Xor",
})  # fmt: skip
"""Operators that compute each number from those at its place, whatever the axes are."""

REDUCTIONS = frozenset({"ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"})

_SMALLER = 4
"""How many times smaller than a result an operand is that is turned for it."""


def cancel(graph: Graph) -> None:
    """Move the transposes of a graph, and of those within it, where fewer bytes are moved then."""
    for node in graph.nodes:
        for inner in node.graphs:
            cancel(inner)
    nodes, before = graph.nodes, _bytes_moved(graph)
    if not before:
        return
    graph.nodes = []
    moving = _Moving(graph)
    for node in nodes:
        moving.take(node)
    graph.prune()
    if graph.names.decide(_bytes_moved(graph) >= before):
        graph.nodes = nodes
        return
    for node in graph.nodes:
        for inner in node.graphs:
            _rename(inner, moving.same)


def _bytes_moved(graph: Graph) -> int:
    """Return bytes that transposes move in each call."""
    names = graph.names
    return sum(
        names.tensors[node.outputs[0]].size_bytes
        for node in graph.nodes
        if node.operator == "Transpose" and node.outputs[0] not in names.fixed
    )


def _rename(graph: Graph, same: dict[str, str]) -> None:
    graph.nodes = [
        replace(node, inputs=tuple(same.get(each, each) for each in node.inputs))
        for node in graph.nodes
    ]
    for node in graph.nodes:
        for inner in node.graphs:
            _rename(inner, same)


class _Turned(NamedTuple):
    """A value that is another one with its axes in this order."""

    source: Tensor
    order: tuple[int, ...]


class _Moving:
    """Nodes put into an empty graph one after the other. same: values that are others, by name."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._tensors = graph, graph.names.tensors
        self._turned: dict[str, _Turned] = {}
        self._first: dict[tuple[str, tuple[int, ...]], str] = {}
        self._there: set[str] = set()
        self.same: dict[str, str] = {}

    def take(self, node: Node) -> None:
        """Put a node into the graph: behind it what is transposed before it, if that can be."""
        self._graph.names.origin = node.origin
        node = replace(node, inputs=tuple(self.same.get(each, each) for each in node.inputs))
        made = None if node.outputs[0] in self._graph.names.fixed else self._move(node)
        if made is None:
            for name in names_in(node):
                self._whole(self.same.get(name, name))
            self._graph.nodes.append(node)
            return
        (name,), (source, order) = node.outputs, made
        if order == tuple(range(len(order))):
            self.same[name] = source.name
            return
        first = self._first.setdefault((source.name, order), name)
        if first != name:
            self.same[name] = first
        self._turned[first] = made

    def _move(self, node: Node) -> _Turned | None:
        if node.operator == "Transpose":
            (name,), order = node.inputs, node.attributes["perm"]
            assert isinstance(order, tuple)
            source, before = self._turned.get(name) or (self._tensors[name], range(len(order)))
            return _Turned(source, tuple(before[axis] for axis in order))
        if node.operator in ALONE:
            return self._each(node)
        if node.operator == "Concat":
            return self._move_concat(node)
        turned = self._turned.get(node.inputs[0]) if node.inputs else None
        if turned is None:
            return None
        if node.operator in REDUCTIONS:
            return self._move_reduction(node, turned)
        if node.operator == "Pad":
            return self._move_pad(node, turned)
        if node.operator == "Slice":
            return self._cut(node, turned)
        return None

    def _each(self, node: Node) -> _Turned | None:
        shape = self._tensors[node.outputs[0]].shape
        orders = [
            self._turned[name].order
            for name in node.inputs
            if name in self._turned and self._tensors[name].shape == shape
        ]
        return self._all_in(node, orders[0]) if orders else None

    def _move_concat(self, node: Node) -> _Turned | None:
        orders = {self._turned[name].order for name in node.inputs if name in self._turned}
        axis = node.attributes["axis"]
        if len(orders) != 1 or not isinstance(axis, int):
            return None
        (order,) = orders
        return self._all_in(replace(node, attributes={"axis": order[axis]}), order)

    def _all_in(self, node: Node, order: tuple[int, ...]) -> _Turned | None:
        """Return a node of operands whose axes come in another order."""
        size = prod(self._tensors[node.outputs[0]].shape)
        operands = []
        for name in node.inputs:
            operand = self._before(name, order, size)
            if operand is None:
                return None
            operands.append(operand)
        return self._add_node(node, operands, order)

    def _before(self, name: str, order: tuple[int, ...], size: int) -> Tensor | None:
        """Return an operand before this transposition; None if that would move too much."""
        turned, tensor = self._turned.get(name), self._tensors[name]
        if turned is not None and turned.order == order:
            return turned.source
        if prod(tensor.shape) == 1:
            return tensor
        names = self._graph.names
        if name not in names.fixed and names.decide(prod(tensor.shape) * _SMALLER > size):
            return None
        own = (1,) * (len(order) - len(tensor.shape)) + tensor.shape
        back = sorted(range(len(order)), key=lambda axis: order[axis])
        self._whole(name)
        if moves_nothing(own, back):
            return self._graph.reshape(tensor, [own[axis] for axis in back])
        return self._graph.transpose(self._graph.reshape(tensor, own), back)

    def _move_reduction(self, node: Node, turned: _Turned) -> _Turned | None:
        axes = self._tensors[node.inputs[1]].constant
        if axes is None or node.attributes["keepdims"]:
            return None
        source, order = turned
        gone = sorted(order[axis] for axis in axes.tolist())
        left = [axis for axis in order if axis not in gone]
        rank = {axis: place for place, axis in enumerate(sorted(left))}
        operands = [source, self._graph.ints(*gone)]
        return self._add_node(node, operands, tuple(rank[axis] for axis in left))

    def _move_pad(self, node: Node, turned: _Turned) -> _Turned | None:
        edges = self._tensors[node.inputs[1]].constant
        if edges is None:
            return None
        source, order = turned
        places = sorted(range(len(order)), key=lambda axis: order[axis])
        edges = edges.reshape(2, -1)[:, places].reshape(-1)
        filler = self._tensors[node.inputs[2]]
        return self._add_node(node, [source, self._graph.ints(*edges.tolist()), filler], order)

    def _cut(self, node: Node, turned: _Turned) -> _Turned | None:
        axes = self._tensors[node.inputs[3]].constant
        if axes is None:
            return None
        source, order = turned
        places = [self._tensors[name] for name in node.inputs]
        places[0], places[3] = source, self._graph.ints(*(order[axis] for axis in axes.tolist()))
        return self._add_node(node, places, order)

    def _add_node(self, node: Node, operands: list[Tensor], order: tuple[int, ...]) -> _Turned:
        """Add a node of these operands, whose result in this order replaces another's."""
        result = self._tensors[node.outputs[0]]
        shape = [size for _, size in sorted(zip(order, result.shape, strict=True))]
        made = self._graph.node(node.operator, operands, shape, result.element, **node.attributes)
        return _Turned(made, order)

    def _whole(self, name: str) -> None:
        """Have a value in the graph by its own name."""
        turned = self._turned.get(name)
        if turned is None or name in self._there:
            return
        self._there.add(name)
        (source, order), shape = turned, self._tensors[name].shape
        node = Node("Transpose", (source.name,), (name,), {"perm": order}, self._graph.names.origin)
        if moves_nothing(source.shape, order) and 0 not in shape:
            inputs = (source.name, self._graph.ints(*shape).name)
            node = Node("Reshape", inputs, (name,), {"allowzero": 0}, self._graph.names.origin)
        self._graph.nodes.append(node)
