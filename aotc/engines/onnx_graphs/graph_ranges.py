"""One graph for all sizes of a dimension, made of the graphs at some of them.

The graphs have to be the same but for whole numbers that grow by the same step with the size, and
for counts up to such numbers. The graph computes these from the shape of one of its inputs. Two
sizes say how a number depends on the size, the others prove it.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from aotc.engines.onnx_graphs.graph_builder import Graph, Node, Tensor
from aotc.engines.onnx_graphs.stablehlo_program import Array, UnsupportedError

_NUMBERS_MAX = 64
"""The most numbers of a constant that are computed one by one, as those of shapes are."""

type Affine = tuple[int, int]
"""A whole number that depends on a size: the slope and the start of slope * size + start."""


def affine(rows: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[Affine] | None:
    """Return how each number of these rows depends on the row's size; None if one does not."""
    found = []
    if len({*map(len, rows)}) > 1:
        return None
    for values in zip(*rows, strict=True):
        slope, rest = divmod(values[0] - values[1], sizes[0] - sizes[1])
        start = values[0] - slope * sizes[0]
        if rest or any(slope * n + start != each for n, each in zip(sizes, values, strict=True)):
            return None
        found.append((slope, start))
    return found


class Generalizer:
    """Changes the first graph to one for any size, by going through graphs by size side by side.

    `same` has the names of each graph's arrays in the first, `lengths` by such a name the axes of
    an array whose shape depends on the size.
    """

    def __init__(self, graphs: Mapping[int, Graph], dimension: str) -> None:
        self._sizes, self._every, self._dimension = [*graphs], [*graphs.values()], dimension
        self._graph = self._every[0]
        self._same: list[dict[str, str]] = [{} for _ in graphs]
        self._lengths: dict[str, list[Affine]] = {}
        self._made: dict[tuple[Affine, ...], Tensor] = {}

    def whole(self) -> Graph:
        """Return the graph. Raises UnsupportedError, with what depends on the size otherwise."""
        graph, nodes = self._graph, [each.nodes for each in self._every]
        self._note("an input", [each.inputs for each in self._every])
        graph.nodes = []  # takes what computes numbers
        self._size = self._size_of_input()
        changed = self._nodes(nodes)
        graph.nodes += changed
        self._note("a result", [each.outputs for each in self._every])
        for name, lengths in self._lengths.items():
            texts = (f"{slope}*{self._dimension}{start:+d}" for slope, start in lengths)
            every = zip(lengths, texts, strict=True)
            graph.names.axes[name] = tuple(text if each[0] else each[1] for each, text in every)
        graph.prune()
        return graph

    def _size_of_input(self) -> Tensor:
        """Return the size, a list of one number."""
        for given in self._graph.inputs:
            lengths = self._lengths.get(given.name, [])
            if (1, 0) in lengths:
                axis = lengths.index((1, 0))
                ends = {"start": axis, "end": axis + 1}
                return self._graph.node("Shape", [given], (1,), "i64", **ends)
        raise UnsupportedError(f"no input with an axis of {self._dimension}")

    def _note(self, what: str, arrays: Sequence[Sequence[Tensor]]) -> None:
        """Note the same arrays of all graphs, and how their shapes depend on the size."""
        if len({*map(len, arrays)}) > 1:
            raise self._other(what, "in another number")
        for tensors in zip(*arrays, strict=True):
            first, lengths = tensors[0], affine([each.shape for each in tensors], self._sizes)
            if lengths is None or any(each.element != first.element for each in tensors):
                raise self._other(what, f"a shape like {[*first.shape]}")
            for same, each in zip(self._same, tensors, strict=True):
                same[each.name] = first.name
            if any(slope for slope, _ in lengths):
                self._lengths[first.name] = lengths

    def _nodes(self, every: Sequence[Sequence[Node]]) -> list[Node]:
        """Return nodes of a graph, or of a body in it, for any size."""
        if len({*map(len, every)}) > 1:
            rows = zip(*every, strict=False)
            first = next((row[0] for row in rows if len({n.operator for n in row}) > 1), None)
            raise self._other(first.origin if first else "the program", "other operators")
        return [self._node(nodes) for nodes in zip(*every, strict=True)]

    def _node(self, nodes: Sequence[Node]) -> Node:
        node, what = nodes[0], nodes[0].origin
        known = {(n.operator, len(n.inputs), len(n.outputs), *sorted(n.attributes)) for n in nodes}
        if len(known) > 1:
            raise self._other(what, " or ".join(sorted({each.operator for each in nodes})))
        self._graph.names.origin = what
        inputs = [
            self._input(node, names) for names in zip(*(n.inputs for n in nodes), strict=True)
        ]
        for name, value in node.attributes.items():
            values = [each.attributes[name] for each in nodes]
            bodies = [each for each in values if isinstance(each, Graph)]
            if isinstance(value, Graph) and len(bodies) == len(nodes):
                self._note(what, [each.inputs for each in bodies])
                value.nodes = self._nodes([each.nodes for each in bodies])
                self._note(what, [each.outputs for each in bodies])
            elif any(each != value for each in values):
                raise self._other(what, f"{node.operator} with {name} like {value}")
        pairs = zip(self._every, nodes, strict=True)
        self._note(what, [[graph.names.tensors[name] for name in n.outputs] for graph, n in pairs])
        return Node(node.operator, tuple(inputs), node.outputs, node.attributes, what)

    def _input(self, node: Node, names: Sequence[str]) -> str:
        pairs = zip(self._every, names, strict=True)
        constants = [graph.names.arrays.get(name) for graph, name in pairs]
        known = [each for each in constants if each is not None]
        if not known:
            same = zip(self._same, names, strict=True)
            if any(alike.get(name, name) != names[0] for alike, name in same):
                raise self._other(node.origin, f"{node.operator} of another array")
            return names[0]
        if len(known) < len(names) or len({element for element, _ in known}) > 1:
            raise self._other(node.origin, f"{node.operator} of a known array")
        element, first = known[0]
        if len({(array.shape, array.tobytes()) for _, array in known}) == 1:
            return names[0]
        arrays = [array for _, array in known]
        if node.operator == "Reshape" and not node.attributes.get("allowzero"):
            shape = self._reshaped(node.inputs[0], arrays)
            if shape is not None:
                return self._graph.ints(*shape).name
        made = self._computed(arrays)
        if made is None:
            what = f"a constant of {node.operator} like {first.tolist()}"
            raise self._other(node.origin, what[:100])
        return self._graph.cast(made, element).name

    def _reshaped(self, given: str, shapes: Sequence[Array]) -> list[int] | None:
        """Return a shape for Reshape: 0 for an axis that stays, -1 for one that follows."""
        lengths = affine([each.tolist() for each in shapes], self._sizes)
        if lengths is None:
            return None
        before, shape = self._lengths.get(given, []), list[int]()
        for axis, (slope, start) in enumerate(lengths):
            stays = before[axis : axis + 1] == [(slope, start)]
            shape.append(start if not slope else 0 if stays else -1)
        return shape if shape.count(-1) < 2 else None

    def _computed(self, arrays: Sequence[Array]) -> Tensor | None:
        """Return whole numbers that depend on the size, as the graph computes them."""
        rows, shape = [_whole(each) for each in arrays], arrays[0].shape
        lengths = affine([each.shape for each in arrays], self._sizes)
        growing = [axis for axis, (slope, _) in enumerate(lengths or ()) if slope]
        if lengths is None or not all(rows) or len(growing) > 1:
            return None
        made = None
        if growing and len(rows[0]) == shape[growing[0]]:
            made = self._counted(rows, lengths[growing[0]])
        elif not growing and len(rows[0]) <= _NUMBERS_MAX:
            numbers = affine(rows, self._sizes)
            made = None if numbers is None else self._vector(numbers)
        if made is None or len(shape) == 1:
            return made
        own = self._graph.ints(*(-1 if axis in growing else n for axis, n in enumerate(shape)))
        return self._graph.node("Reshape", [made, own], shape, "i64", allowzero=0)

    def _vector(self, numbers: Sequence[Affine]) -> Tensor:
        """Return numbers that depend on the size, in a list."""
        if (key := tuple(numbers)) not in self._made:
            graph = self._graph
            slopes, starts = (graph.ints(*each) for each in zip(*numbers, strict=True))
            self._made[key] = graph.each("Add", graph.each("Mul", self._size, slopes), starts)
        return self._made[key]

    def _counted(self, rows: Sequence[Sequence[int]], length: Affine) -> Tensor | None:
        """Return numbers with the same distance from each to the next, as many as an axis has."""
        steps = {after - before for row in rows for before, after in pairwise(row)}
        starts = affine([row[:1] for row in rows], self._sizes)
        if len(steps) != 1 or steps == {0} or starts is None:
            return None
        (step,), ((slope, start),) = steps, starts
        last = (slope + step * length[0], start + step * length[1])
        ends = [self._graph.reshape(self._vector([each]), ()) for each in (starts[0], last)]
        ends.append(self._graph.constant(step, "i64"))
        return self._graph.node("Range", ends, (len(rows[0]),), "i64")

    def _other(self, what: str, found: str) -> UnsupportedError:
        return UnsupportedError(f"{what}: {found}, which depends on {self._dimension}")


def _whole(array: Array) -> list[int]:
    """Return the numbers of an array if all are whole and no negative zeros; else none."""
    exact = array if array.dtype.kind in "iub" else array.astype(np.float64)
    numbers = exact.reshape(-1).tolist()
    for each in numbers:
        if not float(each).is_integer() or abs(each) >= 2**63 or str(each) == "-0.0":
            return []
    return [int(each) for each in numbers]
