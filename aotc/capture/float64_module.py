"""Converts a StableHLO module to float64, to compute a program without rounding of its own types.

The module is converted, not the program, so that it computes the same operations in the same order.
Operations on the bits of a number, and calls into libraries, keep their types, with conversions
around them. Numbers of 8 bits and less keep theirs: programs round to them on purpose.

With a seed, sums are changed by as much as float32 may differ in another order of addition: a unit
of the sum of absolute numbers (Higham, Accuracy and Stability of Numerical Algorithms, 4.2).

`interpreted` runs a module in jaxlib's StableHLO interpreter, which shares no code with any engine.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.capture import jax_private
from aotc.compile.mlir import mlir_context

type Array = np.ndarray[Any, Any]

SUMS = {
    "stablehlo.dot_general": 2,
    "stablehlo.convolution": 2,
    "stablehlo.reduce": 1,
    "stablehlo.reduce_window": 1,
}
"""Operations that add up, with the number of operands that are added or multiplied before."""

ROUNDING = 2.0**-24
"""Relative error of a float32 addition."""

SIGNS_MAX = 2**20
"""Signs that differ for each number of a result; larger results have those of their last axis."""

KEPT = ("stablehlo.bitcast_convert", "stablehlo.custom_call", "chlo.next_after")
"""Operations whose operands and results keep their types."""


class NotWidenedError(Exception):
    """A module has no counterpart in float64; the text gives the reason."""


def widen(artifact: bytes, seed: int | None = None) -> bytes:
    """Return a portable artifact with its numbers in float64 and complex128.

    `seed` is that of errors of sums of float32 and narrower numbers; by default they are exact.

    Raises:
        NotWidenedError: It has no counterpart in float64.
        ValueError, ir.MLIRError: It cannot be read or written.
    """
    module = mlir_context.read_artifact(artifact)
    with module.context, ir.Location.unknown():
        operations = [*_operations(module.operation)]
        kept = [
            (operation, [operand.type for operand in operation.operands])
            for operation in operations
            if operation.name in KEPT
        ]
        sums = [each for each in operations if seed is not None and _is_sum(each)]
        for operation in operations:
            _widen(operation)
        for place, operation in enumerate(sums):
            _blur(operation, np.random.default_rng((seed or 0, place)))
        for operation, types in kept:
            _wrap(operation, types)
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            raise NotWidenedError("operations that need their types") from error
        return jax_private.serialize_portable(module, mlir_context.stablehlo_version())


def _operations(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from _operations(inner.operation)


def _is_sum(operation: Any) -> bool:
    """Return whether an operation adds up floating-point numbers of 32 bits or less."""
    if operation.name not in SUMS:
        return False
    if not isinstance(operation.results[0].type.element_type, _WIDENED):
        return False
    bodies = [[*block] for region in operation.regions for block in region]
    return all([each.operation.name for each in body][:-1] == ["stablehlo.add"] for body in bodies)


def _blur(operation: Any, chance: np.random.Generator) -> None:
    """Add an error to each number of a sum, with a sign by chance."""
    result = operation.results[0]
    with ir.InsertionPoint.after(operation):
        absolute = operation.clone()
        for place in range(SUMS[operation.name]):
            operand = absolute.operands[place]
            with ir.InsertionPoint(absolute):
                absolute.operands[place] = stablehlo.abs(operand)
        errors = _errors(result.type, chance)
        blurred = stablehlo.add(result, stablehlo.multiply(absolute.results[0], errors))
    result.replace_all_uses_except(blurred, blurred.owner.operation)


def _errors(type_: Any, chance: np.random.Generator) -> Any:
    """Relative errors of either sign, for each number of a type."""
    shape = [*type_.shape]
    is_small = int(np.prod(shape)) <= SIGNS_MAX
    known = shape if is_small else shape[-1:]
    signs = np.where(chance.random(known) < 0.5, -ROUNDING, ROUNDING)
    value = ir.DenseElementsAttr.get(
        np.ascontiguousarray(signs), shape=known, type=ir.F64Type.get()
    )
    made = stablehlo.constant(value)
    return made if is_small else stablehlo.broadcast_in_dim(type_, made, [len(shape) - 1])


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
    elif name not in KEPT:
        if name == "stablehlo.constant":
            _widen_constant(operation)
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
                operation.operands[number] = stablehlo.convert(type_, operand)
    for result in operation.results:
        wide = _wide(result.type)
        if wide != result.type:
            with ir.InsertionPoint.after(operation):
                made = stablehlo.convert(wide, result)
            result.replace_all_uses_except(made, made.owner.operation)


def _wide(type_: Any) -> Any:
    """Return a type with its elements in float64 or complex128, if they have more than 8 bits."""
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


def _widen_constant(operation: Any) -> None:
    """Widen its numbers, if it has any of float32 or less. jaxlib reads none that are complex."""
    type_ = operation.results[0].type
    wide = _wide(type_)
    if wide == type_:
        return
    if isinstance(wide.element_type, ir.ComplexType):
        raise NotWidenedError("a constant of complex numbers")
    numbers = ir.DenseFPElementsAttr(operation.attributes["value"])
    if numbers.is_splat:
        value = ir.FloatAttr.get_f64(ir.FloatAttr(numbers.get_splat_value()).value)
        operation.attributes["value"] = ir.DenseElementsAttr.get_splat(wide, value)
        return
    try:
        values = np.array(numbers, np.float64)
    except TypeError as error:  # numpy cannot read those of bfloat16
        raise NotWidenedError(f"a constant of {type_}") from error
    operation.attributes["value"] = ir.DenseElementsAttr.get(values.reshape(wide.shape))


class NotInterpretedError(Exception):
    """The interpreter does not support a module, an argument or a result."""


def interpret(artifact: bytes, arguments: Sequence[Array]) -> list[Array]:
    """Return the results of a portable artifact's main function.

    It takes about a microsecond for each operation on a number. Raises NotInterpretedError.
    """
    try:
        module = mlir_context.read_artifact(artifact)
        with module.context, ir.Location.unknown():
            stablehlo.register_interpreter_dialect(module.context)
            main = ir.SymbolTable(module.operation)["main"]
            types = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
            given = [_attribute(a, type_) for a, type_ in zip(arguments, types, strict=True)]
            return [np.array(result) for result in stablehlo.eval_module(module, given)]
    except (ValueError, TypeError, RuntimeError, ir.MLIRError) as error:
        raise NotInterpretedError(str(error)) from error


def _attribute(array: Array, type_: Any) -> Any:
    element = ir.RankedTensorType(type_).element_type
    data = np.ascontiguousarray(array)
    return ir.DenseElementsAttr.get(data, type=element, shape=list(array.shape))
