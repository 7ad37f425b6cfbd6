"""Rewrites a module to take weights in 8 or 4 bits, with their scales as further parameters.

    %w : tensor<[k, n] x i8>, %s : tensor<[n] x f32>
    %1 = stablehlo.convert %w                            : [k, n] of f32
    %2 = stablehlo.broadcast_in_dim %s, dims = [1]       : [k, n]
    %3 = stablehlo.multiply %1, %2

With groups of g numbers, %1 is reshaped to [k/g, g, n], and %3 back to [k, n]. Then %3 takes the
place of the weight, converted where it was narrower than float32. Products stay as they are, or
are replaced by those of integers: `aotc.compile.precision.activations`.

Weights of 4 bits are bytes, %w : tensor<[n, k/2] x ui8>. Their halves are

    %a = stablehlo.broadcast_in_dim %w, dims = [0, 1]                         : [n, k/2, 2]
    %b = stablehlo.and (stablehlo.shift_right_logical %a, [.., [0, 4]]), 15   : [n, k/2, 2]

which is reshaped to [n, k], and transposed to [k, n]. %1 is that, less 8.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from aotc.compile.precision.activations import multiply_integers
from aotc.compile.precision.quantized_numbers import MIDDLE, Scheme
from aotc.compile.precision.weight_products import matrix_products

RESTORING = tuple(
    f"stablehlo.{name}"
    for name in ("multiply", "broadcast_in_dim", "reshape", "convert", "transpose")
)
"""Operations between a weight and its products."""


def take_quantized(
    module: ir.Module, schemes: Mapping[int, Scheme], *, round_activations: bool = False
) -> int:
    """Give main parameters of these numbers quantized, each with a scale at the end, in order.

    With `round_activations`, matrix products of these weights are those of integers. Returns how
    many there are.
    """
    products = matrix_products(module, schemes) if round_activations else []
    with module.context, ir.Location.unknown():
        main = ir.SymbolTable(module.operation)["main"]
        block = main.regions[0].blocks[0]
        first = block.operations[0]
        scales: dict[int, Any] = {}
        for number, scheme in sorted(schemes.items()):
            weight = block.arguments[number]
            uses = [(use.owner, use.operand_number) for use in weight.uses]
            wanted = weight.type
            weight.set_type(_stored_type(wanted.shape, scheme))
            scale = block.add_argument(
                _typed(scheme.scale_shape(wanted.shape), ir.F32Type.get()), ir.Location.unknown()
            )
            with ir.InsertionPoint(first):
                restored = _restored(weight, scale, scheme, wanted)
            for owner, place in uses:
                owner.operands[place] = restored
            scales[number] = scale
        for each in products:
            weight = block.arguments[each.parameter]
            multiply_integers(each, weight, scales[each.parameter], schemes[each.parameter])
        for operation in reversed([*block.operations]) if products else ():
            if operation.operation.name in RESTORING and not any(
                True for result in operation.results for _ in result.uses
            ):
                operation.erase()
        function = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        parameters = [each.type for each in block.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(parameters, function.results)
        )
        if "arg_attrs" in main.attributes:
            known = [*ir.ArrayAttr(main.attributes["arg_attrs"])]
            known += [ir.DictAttr.get({})] * (len(parameters) - len(known))
            main.attributes["arg_attrs"] = ir.ArrayAttr.get(known)
    return len(products)


def _stored_type(shape: Sequence[int], scheme: Scheme) -> Any:
    if scheme.is_packed:
        return _typed(scheme.packed_shape(shape), ir.IntegerType.get_unsigned(8))
    return _typed(shape, ir.IntegerType.get_signless(8))


def _typed(shape: Sequence[int], element: Any) -> Any:
    return ir.RankedTensorType.get([*shape], element)


def _restored(weight: Any, scale: Any, scheme: Scheme, wanted: Any) -> Any:
    """Multiply a quantized weight by its scales, to a value of the wanted type."""
    shape, element = [*wanted.shape], ir.F32Type.get()
    blocks = _typed(scheme.blocks(shape), element)
    numbers = _unpacked(weight, scheme, shape) if scheme.is_packed else weight
    if scheme.group:
        integers = ir.RankedTensorType(numbers.type).element_type
        numbers = _made("stablehlo.reshape", _typed(scheme.blocks(shape), integers), numbers)
    numbers = _made("stablehlo.convert", blocks, numbers)
    if scheme.is_packed:
        middle = _made("stablehlo.constant", blocks, value=_splat(blocks, MIDDLE, element))
        numbers = _made("stablehlo.subtract", blocks, numbers, middle)
    axes = ir.DenseI64ArrayAttr.get([*scheme.scaled(shape)])
    spread = _made("stablehlo.broadcast_in_dim", blocks, scale, broadcast_dimensions=axes)
    product = _made("stablehlo.multiply", blocks, numbers, spread)
    if scheme.group:
        product = _made("stablehlo.reshape", _typed(shape, element), product)
    if wanted.element_type != element:
        product = _made("stablehlo.convert", wanted, product)
    return product


def _unpacked(weight: Any, scheme: Scheme, shape: Sequence[int]) -> Any:
    """Return the numbers of a packed weight, not negative, in a weight's shape."""
    byte, order = ir.IntegerType.get_unsigned(8), scheme.order(len(shape))
    *others, half = scheme.packed_shape(shape)
    pairs = _typed((*others, half, 2), byte)
    axes = ir.DenseI64ArrayAttr.get([*range(len(shape))])
    spread = _made("stablehlo.broadcast_in_dim", pairs, weight, broadcast_dimensions=axes)
    places = ir.DenseElementsAttr.get(np.array([0, 4], np.uint8), type=byte)
    places = _made("stablehlo.constant", _typed((2,), byte), value=places)
    axes = ir.DenseI64ArrayAttr.get([len(shape)])
    places = _made("stablehlo.broadcast_in_dim", pairs, places, broadcast_dimensions=axes)
    halves = _made("stablehlo.shift_right_logical", pairs, spread, places)
    mask = _made("stablehlo.constant", pairs, value=_splat(pairs, 15, byte))
    halves = _made("stablehlo.and", pairs, halves, mask)
    numbers = _made("stablehlo.reshape", _typed((*others, 2 * half), byte), halves)
    size = shape[order[-1]]
    if size % 2:
        ends = [*others, size]
        starts, limits, strides = (
            ir.DenseI64ArrayAttr.get(each) for each in ([0] * len(ends), ends, [1] * len(ends))
        )
        where = {"start_indices": starts, "limit_indices": limits, "strides": strides}
        numbers = _made("stablehlo.slice", _typed(ends, byte), numbers, **where)
    back = ir.DenseI64ArrayAttr.get([order.index(axis) for axis in range(len(order))])
    return _made("stablehlo.transpose", _typed(shape, byte), numbers, permutation=back)


def _splat(type_: Any, number: int, element: Any) -> Any:
    is_float = isinstance(element, ir.FloatType)
    make = ir.FloatAttr.get if is_float else ir.IntegerAttr.get
    return ir.DenseElementsAttr.get_splat(type_, make(element, number))


def _made(name: str, type_: Any, *operands: Any, **attributes: Any) -> Any:
    return ir.Operation.create(name, [type_], operands, attributes=attributes).results[0]
