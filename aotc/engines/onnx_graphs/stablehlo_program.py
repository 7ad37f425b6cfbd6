"""A StableHLO module as plain values, with every call inlined.

The only place that knows MLIR's bindings in jaxlib (seen in 0.11.2 to 0.12.0.1).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.compile.mlir.mlir_context import DTYPES

MAIN = "main"
COMPOSITE = "stablehlo.composite"
_RETURNS = ("func.return", "stablehlo.return")

NARROW: Mapping[str, np.dtype[Any]] = {
    "i4": np.dtype(ml_dtypes.int4),
    "ui4": np.dtype(ml_dtypes.uint4),
}
"""Elements that parameters alone have. Each number takes a byte, whose upper half means nothing."""

PARAMETERS: Mapping[str, np.dtype[Any]] = {**DTYPES, **NARROW}
"""By the name of an element's type, those of parameters."""

type Array = np.ndarray[Any, Any]


class UnsupportedError(Exception):
    """Operation that ONNX Runtime would compute otherwise than StableHLO says."""


@dataclass(eq=False, slots=True)
class Value:
    """An array of the module.

    `element` is MLIR's element type; `made_by` is the operation whose result `index` it is, None
    for an argument.
    """

    shape: tuple[int, ...]
    element: str
    made_by: Operation | None = None
    index: int = 0

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the array."""
        return self.size * PARAMETERS[self.element].itemsize


@dataclass(eq=False, slots=True)
class Operation:
    """An operation of the module.

    `name` has its dialect, and is the composite's for a composite. `attributes` are Python values
    and numpy arrays; `blocks` are those of its regions, for a composite its decomposition.
    """

    name: str
    operands: list[Value]
    results: list[Value] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    @property
    def result(self) -> Value:
        """Return its only result."""
        (one,) = self.results
        return one


@dataclass(eq=False, slots=True)
class Block:
    """Operations in order. returned: what the block gives."""

    arguments: list[Value]
    operations: list[Operation] = field(default_factory=list)
    returned: list[Value] = field(default_factory=list)

    def walk(self) -> Iterator[Operation]:
        """Yield its operations, including nested ones."""
        for operation in self.operations:
            yield operation
            for block in operation.blocks:
                yield from block.walk()


def read(module: Any) -> Block:
    """Read a module's `main`. Raises UnsupportedError for types that ONNX lacks."""
    with module.context:
        functions = {
            ir.StringAttr(each.operation.attributes["sym_name"]).value: each.operation
            for each in module.body.operations
            if "sym_name" in each.operation.attributes
        }
        return _Reader(functions).function(functions[MAIN], None)


class _Reader:
    """functions: of the module, by name."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions

    def function(self, operation: Any, arguments: Sequence[Value] | None) -> Block:
        """Return the body of a function, for these arguments."""
        return self._block(operation.regions[0].blocks[0], {}, arguments)

    def _block(
        self, block: Any, known: Mapping[Any, Value], arguments: Sequence[Value] | None
    ) -> Block:
        if arguments is None:
            arguments = [
                _value(each.type, f"a parameter of {_word(each.type)}", known=PARAMETERS)
                for each in block.arguments
            ]
        inside = {**known, **dict(zip(block.arguments, arguments, strict=True))}
        made = Block(list(arguments))
        for each in block.operations:
            operation = each.operation
            operands = [inside[operand] for operand in operation.operands]
            if operation.name in _RETURNS:
                made.returned = operands
            elif operation.name == "func.call":
                callee = self._functions[ir.FlatSymbolRefAttr(operation.attributes["callee"]).value]
                called = self.function(callee, operands)
                made.operations += called.operations
                inside |= zip(operation.results, called.returned, strict=True)
            else:
                added = self._operation(operation, operands, inside)
                made.operations.append(added)
                inside |= zip(operation.results, added.results, strict=True)
        return made

    def _operation(
        self, operation: Any, operands: list[Value], inside: Mapping[Any, Value]
    ) -> Operation:
        name = operation.name
        # Types come first: the bindings end the process for attributes of some that are refused.
        made = Operation(name, operands)
        made.results = [
            _value(result.type, f"{name} of {_word(result.type)}", made, index)
            for index, result in enumerate(operation.results)
        ]
        read_as = _ATTRIBUTES.get(name, {})
        made.attributes = {
            each.name: read_as.get(each.name, _plain)(each.attr)
            for each in _named(operation.attributes)
        }
        made.blocks = [
            self._block(block, inside, None)
            for region in operation.regions
            for block in region.blocks
        ]
        if name == COMPOSITE:
            made.name = made.attributes["name"]
            decomposition = self._functions[made.attributes["decomposition"]]
            made.blocks = [self.function(decomposition, operands)]
        return made


def _named(attributes: Any) -> Iterator[Any]:
    for index in range(len(attributes)):
        yield attributes[index]


def _value(
    type_: Any,
    what: str,
    made_by: Operation | None = None,
    index: int = 0,
    known: Container[str] = DTYPES,
) -> Value:
    """Return a value without its maker's. Raises UnsupportedError for another type than `known`."""
    try:
        tensor = ir.RankedTensorType(type_)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(what) from error
    element = str(tensor.element_type)
    if element not in known or not tensor.has_static_shape:
        raise UnsupportedError(what)
    return Value(tuple(tensor.shape), element, made_by, index)


def _word(type_: Any) -> str:
    """Return the type of a tensor's elements, or the whole type of what is none."""
    try:
        return str(ir.RankedTensorType(type_).element_type)
    except (TypeError, ValueError):
        return str(type_)


def _plain(attribute: Any) -> Any:
    """Return an attribute as Python's value; as text where it is none."""
    if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.StringAttr | ir.FlatSymbolRefAttr):
        return attribute.value
    if isinstance(attribute, ir.DenseI64ArrayAttr | ir.DenseBoolArrayAttr):
        return tuple(attribute)
    if isinstance(attribute, ir.DenseElementsAttr):
        return _dense(attribute)
    if isinstance(attribute, ir.DictAttr):
        return {each.name: _plain(each.attr) for each in ir.DictAttr(attribute)}
    text = str(attribute)
    # Enumerations: #stablehlo<comparison_direction LT>
    return text.removesuffix(">").rpartition(" ")[2] if text.startswith("#stablehlo<") else text


def _dense(attribute: Any) -> Array:
    """Return a constant; of one number where all are the same, whatever its shape."""
    dense = ir.DenseElementsAttr(attribute)
    tensor = ir.RankedTensorType(ir.ShapedType(attribute.type))
    element, shape = str(tensor.element_type), tuple(tensor.shape)
    if element not in DTYPES:
        raise UnsupportedError(f"stablehlo.constant of {element}")
    dtype = DTYPES[element]
    if dtype != ml_dtypes.bfloat16:
        array = np.array(dense).astype(dtype, copy=False)
    elif dense.is_splat:
        array = np.array(ir.FloatAttr(dense.get_splat_value()).value, dtype)
    else:
        array = _brain_floats(str(attribute))
    if dense.is_splat:
        return array.reshape(-1)[:1].reshape(()) if array.size else np.empty(shape, dtype)
    return array.reshape(shape)


def _brain_floats(text: str) -> Array:
    """Return the numbers of `dense<…>` of bfloat16, which the bindings do not give.

    Large ones have all bytes, others each number, or its bits if it is not finite.
    """
    inside = text.removeprefix("dense<").partition("> : ")[0]
    if inside.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(inside[3:-1]), ml_dtypes.bfloat16)
    words = inside.replace("[", " ").replace("]", " ").replace(",", " ").split()
    return np.array(
        [
            np.uint16(int(word, 16)).view(ml_dtypes.bfloat16)
            if word.startswith("0x")
            else float(word)
            for word in words
        ],
        ml_dtypes.bfloat16,
    )


def _fields(kind: Any) -> Callable[[Any], dict[str, Any]]:
    """Return a reader of dimension numbers, whose class has a property for each."""
    names = [name for name, value in vars(kind).items() if isinstance(value, property)]

    def numbers(attribute: Any) -> dict[str, Any]:
        read = {name: getattr(kind(attribute), name) for name in names}
        return {
            name: value if isinstance(value, int) else tuple(value) for name, value in read.items()
        }

    return numbers


_ATTRIBUTES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "stablehlo.gather": {"dimension_numbers": _fields(stablehlo.GatherDimensionNumbers)},
    "stablehlo.scatter": {"scatter_dimension_numbers": _fields(stablehlo.ScatterDimensionNumbers)},
    "stablehlo.dot_general": {"dot_dimension_numbers": _fields(stablehlo.DotDimensionNumbers)},
    "stablehlo.convolution": {"dimension_numbers": _fields(stablehlo.ConvDimensionNumbers)},
}
