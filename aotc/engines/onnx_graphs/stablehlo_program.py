"""A StableHLO module as plain values, with every call inlined.

The only place that knows MLIR's bindings in jaxlib (seen in 0.11.2 to 0.12.0.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

_MOVING = (
    "broadcast_in_dim concatenate constant dynamic_slice dynamic_update_slice gather iota pad "
    "reshape reverse slice transpose"
)
"""Operations that compute no number."""

type Array = np.ndarray[Any, Any]


class UnsupportedError(Exception):
    """Operation or type that an engine would compute otherwise than StableHLO says."""


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
        """Bytes of the array; 0 for elements that programs do not have."""
        known = PARAMETERS.get(self.element)
        return self.size * known.itemsize if known else 0


@dataclass(eq=False, slots=True)
class Operation:
    """An operation of the module.

    `name` has its dialect, is the composite's for a composite, and has the type where that is none
    of ours: such an operation has neither attributes nor blocks. `attributes` are Python values
    and numpy arrays; `blocks` are those of its regions, for a composite its decomposition. `line`
    is the user's, or the layer of a model file; "" in modules without source lines.
    """

    name: str
    operands: list[Value]
    results: list[Value] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    line: str = ""

    @property
    def flops(self) -> int:
        """Return about how many operations on numbers a call makes, loops counted once."""
        moves = self.name.removeprefix("stablehlo.") in _MOVING.split()
        count = 0 if moves else sum(value.size for value in self.results)
        if self.name == "stablehlo.reduce":
            count = self.operands[0].size
        elif self.name == "stablehlo.dot_general":
            numbers, first = self.attributes["dot_dimension_numbers"], self.operands[0]
            summed = numbers["lhs_contracting_dimensions"]
            count *= 2 * prod(first.shape[axis] for axis in summed)
        elif self.name == "stablehlo.convolution":
            numbers, kernel = self.attributes["dimension_numbers"], self.operands[1]
            features = kernel.shape[numbers["kernel_output_feature_dimension"]]
            count *= 2 * kernel.size // max(features, 1)
        return count + sum(block.flops for block in self.blocks)

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

    @property
    def flops(self) -> int:
        """Return about how many operations on numbers it takes."""
        return sum(each.flops for each in self.operations)

    def walk(self) -> Iterator[Operation]:
        """Yield its operations, including nested ones."""
        for operation in self.operations:
            yield operation
            for block in operation.blocks:
                yield from block.walk()


def require_none(refused: Mapping[str, Collection[Operation]], total: int) -> None:
    """Raise UnsupportedError if an engine refuses operations, which are given by what they are.

    `total` has the program's FLOPs.
    """
    found = []
    for what, operations in refused.items():
        each = {id(operation): operation for operation in operations}.values()
        part = sum(operation.flops for operation in each) / max(total, 1)
        lines = dict.fromkeys(operation.line for operation in each if operation.line)
        often = f"{len(each)} times" if len(each) > 1 else "once"
        found.append(f"{what} ({', '.join([often, f'{part:.1%} of FLOPs', *lines])})")
    if found:
        raise UnsupportedError("; ".join(found))


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
        self._line = ""

    def function(self, operation: Any, arguments: Sequence[Value] | None) -> Block:
        """Return the body of a function, for these arguments."""
        return self._block(operation.regions[0].blocks[0], {}, arguments)

    def _block(
        self, block: Any, known: Mapping[Any, Value], arguments: Sequence[Value] | None
    ) -> Block:
        if arguments is None:
            arguments = [value_of(each.type) for each in block.arguments]
            if odd := [each.element for each in arguments if each.element not in PARAMETERS]:
                raise UnsupportedError(f"a parameter of {odd[0]}")
        inside = {**known, **dict(zip(block.arguments, arguments, strict=True))}
        made = Block(list(arguments))
        for each in block.operations:
            operation = each.operation
            operands = [inside[operand] for operand in operation.operands]
            if operation.name in _RETURNS:
                made.returned = operands
            elif operation.name == "func.call":
                callee = self._functions[ir.FlatSymbolRefAttr(operation.attributes["callee"]).value]
                outer, self._line = self._line, _line(operation) or self._line
                called, self._line = self.function(callee, operands), outer
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
        made = Operation(name, operands, line=_line(operation) or self._line)
        types = [result.type for result in operation.results]
        made.results = [value_of(type_, made, index) for index, type_ in enumerate(types)]
        odd = [value.element for value in made.results if value.element not in DTYPES]
        odd += [value.element for value in operands if value.element not in PARAMETERS]
        if odd:
            made.name = f"{name} of {odd[0]}"
            return made
        read_as, given = _ATTRIBUTES.get(name, {}), operation.attributes
        made.attributes = {
            each.name: read_as.get(each.name, _plain)(each.attr)
            for each in (given[index] for index in range(len(given)))
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


_FRAME = re.compile(r'"([^"]+)":(\d+):\d+')
_LAYERS = re.compile(r'^loc\("jit\([^/]*\)/((?:[^"/]+/)+)[^"/]*"')


def _line(operation: Any) -> str:
    """Return the innermost line of the user in a location, or else its layers."""
    text = str(operation.location)
    if frames := _FRAME.findall(text):
        from aotc.capture.user_exceptions import is_users

        if users := [f"{file}:{line}" for file, line in frames if is_users(file)]:
            return users[0]
    layers = _LAYERS.match(text)
    return layers[1].rstrip("/") if layers else ""


def value_of(type_: Any, made_by: Operation | None = None, index: int = 0) -> Value:
    """Return a value; of another type than tensors of one shape, its element is the whole type."""
    try:
        tensor = ir.RankedTensorType(type_)
    except (TypeError, ValueError):
        return Value((), str(type_), made_by, index)
    shape = tuple(tensor.shape) if tensor.has_static_shape else ()
    element = str(tensor.element_type if tensor.has_static_shape else type_)
    return Value(shape, element, made_by, index)


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
