"""A StableHLO module with its floating-point numbers in float64: what a program computes without
the rounding of its own types.

The module is converted, not the program, so that it computes the same operations in the same order.
Operations about the bits of a number, and calls into libraries, keep their types, with conversions
around them. Numbers of 8 bits and less keep theirs: rounding to them is what a program is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from aotc import dialects, private

KEPT = ("stablehlo.bitcast_convert", "stablehlo.custom_call", "chlo.next_after")
"""Operations whose operands and results keep their types."""


class NotWidenedError(Exception):
    """A module that has no counterpart in float64; says why."""


def widened(artifact: bytes) -> bytes:
    """Return a portable artifact with its numbers in float64 and complex128.

    Raises NotWidenedError, ValueError and ir.MLIRError.
    """
    module = dialects.read_artifact(artifact)
    with module.context, ir.Location.unknown():
        operations = [*_operations(module.operation)]
        kept = [
            (operation, [operand.type for operand in operation.operands])
            for operation in operations
            if operation.name in KEPT
        ]
        for operation in operations:
            _widen(operation)
        for operation, types in kept:
            _wrap(operation, types)
        if not module.operation.verify():
            raise NotWidenedError("operations that need their types")
        return private.serialize_portable(module, dialects.stablehlo_version())


def _operations(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from _operations(inner.operation)


def _widen(operation: Any) -> None:
    for region in operation.regions:
        for block in region:
            for argument in block.arguments:
                argument.set_type(_wide(argument.type))
    name = operation.name
    if name == "func.func":
        type_ = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
        inputs, results = ([*map(_wide, each)] for each in (type_.inputs, type_.results))
        wide = ir.FunctionType.get(inputs, results)
        operation.attributes["function_type"] = ir.TypeAttr.get(wide)
    elif name.startswith(("stablehlo.uniform_", "sdy.")):
        raise NotWidenedError(name)
    elif name not in KEPT:
        if name == "stablehlo.constant":
            operation.attributes["value"] = _wide_constant(operation.attributes["value"])
        if "algorithm" in operation.attributes:
            del operation.attributes["algorithm"]
        for result in operation.results:
            result.set_type(_wide(result.type))


def _wrap(operation: Any, types: Sequence[Any]) -> None:
    """Convert operands back to the types that they had, and results to wide ones."""
    with ir.InsertionPoint(operation):
        for number, type_ in enumerate(types):
            operand = operation.operands[number]
            if operand.type != type_:
                operation.operands[number] = _converted(operand, type_)
    for result in operation.results:
        wide = _wide(result.type)
        if wide != result.type:
            users = [(use.owner, use.operand_number) for use in result.uses]
            with ir.InsertionPoint.after(operation):
                made = _converted(result, wide)
            for owner, place in users:
                owner.operands[place] = made


def _converted(value: Any, type_: Any) -> Any:
    made = ir.Operation.create("stablehlo.convert", results=[type_], operands=[value])
    return made.results[0]


def _wide(type_: Any) -> Any:
    """The type with its elements in float64 or complex128, where they are numbers of more than 8
    bits.
    """
    if isinstance(type_, ir.TupleType):
        return ir.TupleType.get_tuple([_wide(type_.get_type(i)) for i in range(type_.num_types)])
    if not isinstance(type_, ir.RankedTensorType):
        return type_
    element = type_.element_type
    if isinstance(element, ir.ComplexType):
        wide: Any = ir.ComplexType.get(ir.F64Type.get())
    elif isinstance(element, _WIDENED):
        wide = ir.F64Type.get()
    else:
        return type_
    return ir.RankedTensorType.get(type_.shape, wide, type_.encoding)


_WIDENED = (ir.F16Type, ir.BF16Type, ir.F32Type)


def _wide_constant(attribute: Any) -> Any:
    wide = _wide(attribute.type)
    if wide == attribute.type:
        return attribute
    if isinstance(wide.element_type, ir.ComplexType):
        raise NotWidenedError("a constant of complex numbers")
    numbers = ir.DenseFPElementsAttr(attribute)
    if numbers.is_splat:
        value = ir.FloatAttr(numbers.get_splat_value()).value
        return ir.DenseElementsAttr.get_splat(wide, ir.FloatAttr.get_f64(value))
    try:
        values = np.array(numbers, np.float64)
    except TypeError as error:  # numpy cannot read those of bfloat16
        raise NotWidenedError(f"a constant of {attribute.type}") from error
    return ir.DenseElementsAttr.get(values.reshape(wide.shape))
