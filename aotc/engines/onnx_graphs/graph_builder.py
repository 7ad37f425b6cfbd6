"""An ONNX graph under construction, with what numpy's broadcasting spares it.

A tensor stands for an array of StableHLO whose shape its own broadcasts to: where StableHLO repeats
a number or a row, the graph leaves that to the operators, until one needs the whole array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs.stablehlo_program import Array

END = 2**63 - 1
"""An end of `Slice` beyond every axis."""

type Attribute = int | float | str | tuple[int, ...] | Graph


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the graph: `shape` without leading axes of 1, `constant` if known and small."""

    name: str
    shape: tuple[int, ...]
    element: str
    constant: Array | None = None

    @property
    def number(self) -> Any:
        """The number that it is everywhere; None if it is no constant, or has several."""
        if self.constant is None or self.constant.size != 1:
            return None
        return self.constant.reshape(())[()]

    @property
    def size_bytes(self) -> int:
        """Bytes of its numbers."""
        return prod(self.shape) * DTYPES[self.element].itemsize


@dataclass(frozen=True, slots=True)
class Node:
    """An operator with the names of its inputs and outputs; "" for an omitted input.

    `origin` is the operation of StableHLO that it implements.
    """

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    origin: str

    @property
    def graphs(self) -> list[Graph]:
        """The bodies of a loop or of branches."""
        return [each for each in self.attributes.values() if isinstance(each, Graph)]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels that an engine has for quantized numbers.

    `operators` is whether it has those of ONNX and of ONNX Runtime; `signed` is whether sums of
    products of uint8 and int8 are exact; `rounding` is whether products with quantized weights
    round their other factor to 8 bits; `ranged` is whether calls have different sizes.
    """

    operators: bool = True
    signed: bool = False
    rounding: bool = False
    ranged: bool = False


ALL_KERNELS = Kernels()


@dataclass(slots=True)
class Names:
    """State that all graphs of a model share.

    `constants` are by contents. `fixed` values depend on weights and constants alone, and ONNX
    Runtime computes them at load. `convolved` are results of convolutions, scaled or shifted by
    such values at most. `tensors` has all values by name. `unsigned` has the same numbers plus 128
    for some of int8, by their name, and `packed` the bytes of some of 4 bits. `axes` are those of
    arrays whose shapes depend on a dimension. `decisions` are those by size, and `followed` those
    of the same program at another size, which are taken in their place.
    """

    kernels: Kernels = ALL_KERNELS
    count: int = 0
    arrays: dict[str, tuple[str, Array]] = field(default_factory=dict)
    constants: dict[tuple[Any, ...], str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    convolved: set[str] = field(default_factory=set)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    unsigned: dict[str, Tensor] = field(default_factory=dict)
    packed: dict[str, Tensor] = field(default_factory=dict)
    axes: dict[str, tuple[int | str, ...]] = field(default_factory=dict)
    decisions: list[bool] = field(default_factory=list)
    followed: Iterator[bool] | None = None
    origin: str = ""

    def decide(self, is_better: bool) -> bool:
        """Return which of two graphs that compute the same is made, the first or the second."""
        decided = is_better if self.followed is None else next(self.followed, is_better)
        self.decisions.append(decided)
        return decided


_FOLDED = ("Add", "Mul", "Reshape", "Transpose")
"""Operators that ONNX Runtime makes part of the convolution before them, or moves behind it."""

_SMALL = 4096
"""Elements of a constant whose value is kept at hand."""


class Graph:
    """A graph, or the body of a loop or a branch within another, whose values it can use."""

    def __init__(self, outer: Graph | None = None) -> None:
        self.names: Names = outer.names if outer else Names()
        self.nodes: list[Node] = []
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []

    def input(self, name: str, shape: Sequence[int], element: str) -> Tensor:
        """Return a parameter of the graph."""
        self.inputs.append(self._add_known(Tensor(name, tuple(shape), element)))
        return self.inputs[-1]

    def output(self, tensor: Tensor, shape: Sequence[int], name: str = "") -> None:
        """Add a result as an array of this shape."""
        name = name or self.fresh()
        self._add("Identity", [self.full(tensor, shape)], (name,), {})
        self.outputs.append(self._add_known(Tensor(name, tuple(shape), tensor.element)))

    def constant(self, value: Any, element: str) -> Tensor:
        """Return an array that is part of the model, whatever graph uses it."""
        array = np.ascontiguousarray(np.asarray(value, DTYPES[element]))
        array = array.reshape(np.shape(value))
        key = (element, array.shape, array.tobytes())
        name = self.names.constants.get(key)
        if name is None:
            name = self.names.constants[key] = self.fresh("c")
            self.names.arrays[name] = (element, array)
            self.names.fixed.add(name)
        kept = array if self.names.decide(array.size <= _SMALL) else None
        return self._add_known(Tensor(name, array.shape, element, kept))

    def ints(self, *values: int) -> Tensor:
        """Return a list of int64."""
        return self.constant(np.array(values, np.int64), "i64")

    def node(
        self,
        operator: str,
        inputs: Sequence[Tensor | None],
        shape: Sequence[int],
        element: str,
        **attributes: Attribute,
    ) -> Tensor:
        """Return the only output of an operator."""
        (made,) = self.several(operator, inputs, [(shape, element)], **attributes)
        return made

    def several(
        self,
        operator: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[tuple[Sequence[int], str]],
        **attributes: Attribute,
    ) -> list[Tensor]:
        """Return the outputs of an operator, of these shapes and elements."""
        made = [
            self._add_known(Tensor(self.fresh(), tuple(shape), element))
            for shape, element in outputs
        ]
        self._add(operator, inputs, tuple(each.name for each in made), attributes)
        return made

    def _add(
        self,
        operator: str,
        inputs: Sequence[Tensor | None],
        outputs: tuple[str, ...],
        attributes: dict[str, Attribute],
    ) -> None:
        taken = tuple("" if each is None else each.name for each in inputs)
        names = self.names
        if names.fixed.issuperset(taken):
            names.fixed.update(outputs)
        elif operator == "Conv" or (
            operator in _FOLDED
            and all(each in names.fixed or each in names.convolved for each in taken)
        ):
            names.convolved.update(outputs)
        self.nodes.append(Node(operator, taken, outputs, attributes, self.names.origin))

    def _add_known(self, tensor: Tensor) -> Tensor:
        self.names.tensors[tensor.name] = tensor
        return tensor

    def fresh(self, prefix: str = "v") -> str:
        """Return a name that no other value has."""
        self.names.count += 1
        return f"{prefix}{self.names.count}"

    def is_folded(self, one: Tensor, other: Tensor) -> bool:
        """Return whether a sum or a product of these becomes part of a convolution at load."""
        return one.name in self.names.convolved and other.name in self.names.fixed

    def each(
        self, operator: str, *inputs: Tensor, element: str = "", **attributes: Attribute
    ) -> Tensor:
        """Add an elementwise operator; `element` is the result's type, by default the last's."""
        shape = np.broadcast_shapes(*(tensor.shape for tensor in inputs))
        return self.node(operator, inputs, shape, element or inputs[-1].element, **attributes)

    def like(self, value: float, tensor: Tensor) -> Tensor:
        """Return a number of a tensor's type."""
        return self.constant(np.array(value, DTYPES[tensor.element]), tensor.element)

    def cast(self, tensor: Tensor, element: str) -> Tensor:
        """Return a conversion that is one between integers, to a float or between floats."""
        if tensor.element == element:
            return tensor
        if tensor.constant is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                return self.constant(tensor.constant.astype(DTYPES[element]), element)
        return self.node("Cast", [tensor], tensor.shape, element, to=element)

    def full(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Return the whole array that a tensor stands for."""
        shape = tuple(shape)
        if tensor.shape == shape:
            return tensor
        if prod(tensor.shape) == prod(shape):
            return self.reshape(tensor, shape)
        is_folded = tensor.number is not None and not self.names.kernels.ranged
        if is_folded and prod(shape) <= _SMALL:
            return self.constant(np.full(shape, tensor.number), tensor.element)
        operands = [
            self.cast(tensor, INSTEAD["Expand"].get(tensor.element, tensor.element)),
            self.ints(*shape),
        ]
        made = self.node("Expand", operands, shape, operands[0].element)
        return self.cast(made, tensor.element)

    def reshape(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Return a tensor's numbers in another shape."""
        shape = tuple(shape)
        if tensor.shape == shape:
            return tensor
        if tensor.constant is not None:
            return self.constant(tensor.constant.reshape(shape), tensor.element)
        operands = [tensor, self.ints(*shape)]
        return self.node("Reshape", operands, shape, tensor.element, allowzero=int(0 in shape))

    def transpose(self, tensor: Tensor, order: Sequence[int]) -> Tensor:
        """Return the axes in another order."""
        order = tuple(order)
        if order == tuple(range(len(order))):
            return tensor
        shape = tuple(tensor.shape[axis] for axis in order)
        if moves_nothing(tensor.shape, order):
            return self.reshape(tensor, shape)
        return self.node("Transpose", [tensor], shape, tensor.element, perm=order)

    def slice(
        self,
        tensor: Tensor,
        starts: Sequence[int],
        ends: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> Tensor:
        """Return a part of each axis. ends: not beyond the axes."""
        steps = steps or [1] * len(starts)
        shape = [
            max(0, -(-(end - start) // step))
            for start, end, step in zip(starts, ends, steps, strict=True)
        ]
        cut = [
            axis
            for axis, size in enumerate(tensor.shape)
            if (starts[axis], ends[axis], steps[axis]) != (0, size, 1)
        ]
        if not cut:
            return tensor
        operands = [
            tensor,
            *(self.ints(*(each[axis] for axis in cut)) for each in (starts, ends)),
            self.ints(*cut),
            self.ints(*(steps[axis] for axis in cut)),
        ]
        return self.node("Slice", operands, shape, tensor.element)

    def part(self, tensor: Tensor, axis: int, start: int, end: int) -> Tensor:
        """Return a part of one axis."""
        starts, ends = [0] * len(tensor.shape), list(tensor.shape)
        starts[axis], ends[axis] = start, end
        return self.slice(tensor, starts, ends)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return whole arrays one after the other."""
        parts = [each for each in tensors if each.shape[axis]] or list(tensors[:1])
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(each.shape[axis] for each in parts)
        return self.node("Concat", parts, shape, parts[0].element, axis=axis)

    def pad(self, tensor: Tensor, low: Sequence[int], high: Sequence[int], value: Tensor) -> Tensor:
        """Return numbers around an array."""
        if not any(low) and not any(high):
            return tensor
        shape = [
            size + before + after
            for size, before, after in zip(tensor.shape, low, high, strict=True)
        ]
        if 0 in tensor.shape:
            return self.full(value, shape)
        # OpenVINO converts the number to float32.
        converts = value.element == "i32" and not self.names.kernels.operators
        if converts and (value.number is None or np.float32(value.number) != value.number):
            inner = self.pad(self.each("Sub", tensor, value), low, high, self.like(0, value))
            return self.each("Add", inner, value)
        element = INSTEAD["Pad"].get(tensor.element, tensor.element)
        operands = [self.cast(tensor, element), self.ints(*low, *high), self.cast(value, element)]
        return self.cast(
            self.node("Pad", operands, shape, element, mode="constant"), tensor.element
        )

    def where(self, condition: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """Return one where the condition holds, else the other."""
        if one.element == "i1":
            both = self.each("And", condition, one)
            return self.each("Or", both, self.each("And", self.each("Not", condition), other))
        element = INSTEAD["Where"].get(one.element, one.element)
        operands = (condition, self.cast(one, element), self.cast(other, element))
        return self.cast(self.each("Where", *operands), one.element)

    def is_nan(self, tensor: Tensor) -> Tensor:
        """Return where a float is NaN."""
        if tensor.element == "bf16":
            tensor = self.cast(tensor, "f32")
        return self.each("IsNaN", tensor, element="i1")

    def prune(self) -> None:
        """Drop what no result needs."""
        self._prune({each.name for each in self.outputs})

    def _prune(self, used: set[str]) -> None:
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if not used.intersection(node.outputs):
                continue
            kept.append(node)
            used.update(node.inputs)
            for inner in node.graphs:
                used.update(each.name for each in inner.outputs)
                inner._prune(used)
        self.nodes = kept[::-1]

    def most_bytes(self) -> int:
        """Return the most bytes of values that are needed at once, taking nodes in order."""
        last: dict[str, int] = {}
        for at, node in enumerate(self.nodes):
            last.update(dict.fromkeys(names_in(node), at))
        alive = most = 0
        ends: dict[int, int] = {}
        for at, node in enumerate(self.nodes):
            # A result takes none: it counts as what it is identical to.
            made = node.outputs if node.operator != "Identity" else ()
            sizes = {name: self.names.tensors[name].size_bytes for name in made}
            for name, size in sizes.items():
                end = last.get(name, at)
                ends[end] = ends.get(end, 0) + size
            alive += sum(sizes.values())
            most = max(most, alive + max((each.most_bytes() for each in node.graphs), default=0))
            alive -= ends.get(at, 0)
        return most

    def walk(self) -> Iterator[Node]:
        """Yield its nodes, including nested ones."""
        for node in self.nodes:
            yield node
            for inner in node.graphs:
                yield from inner.walk()


INSTEAD: Mapping[str, Mapping[str, str]] = {
    "Expand": {"bf16": "f32"},
    "Pad": {"i16": "i32", "ui16": "i32", "bf16": "f32", "i1": "ui8"},
    "Where": {
        **dict.fromkeys(("i8", "i16", "ui16"), "i32"),
        **dict.fromkeys(("ui32", "ui64"), "i64"),
        **dict.fromkeys(("f16", "bf16"), "f32"),
    },
}
"""By operator, elements that ONNX Runtime's lacks, with one that holds the same numbers; a cast of
64 bits keeps their bits. A float16 becomes a float32 by itself.
"""


def names_in(node: Node) -> Iterator[str]:
    """Yield the names that a node uses, also within loops and branches."""
    yield from node.inputs
    for graph in node.graphs:
        for inner in graph.nodes:
            yield from names_in(inner)


def moves_nothing(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Return whether only axes of 1 change their place."""
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


def strip(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without leading axes of 1, which broadcasting adds by itself."""
    shape = tuple(shape)
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape
