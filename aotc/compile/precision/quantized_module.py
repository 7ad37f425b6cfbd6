"""Rewrites a module to take weights in 8 or 4 bits, with their scales as further parameters.

    %w : tensor<[k, n] x i8>, %s : tensor<[n] x f32>
    %1 = stablehlo.convert %w                            : [k, n] of f32
    %2 = stablehlo.broadcast_in_dim %s, dims = [1]       : [k, n]
    %3 = stablehlo.multiply %1, %2

With groups of g numbers, %1 is reshaped to [k/g, g, n], and %3 back to [k, n]. Then %3 takes the
place of the weight, converted where it was narrower than float32. Products stay as they are, or
are replaced by those of integers: `aotc.compile.precision.activations`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from aotc.compile.precision.activations import multiply_integers
from aotc.compile.precision.quantized_numbers import Scheme
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
            weight.set_type(_typed(wanted.shape, _element(scheme)))
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


def _element(scheme: Scheme) -> Any:
    return ir.IntegerType.get_signless({"int8": 8, "int4": 4}[scheme.dtype])


def _typed(shape: Sequence[int], element: Any) -> Any:
    return ir.RankedTensorType.get([*shape], element)


def _restored(weight: Any, scale: Any, scheme: Scheme, wanted: Any) -> Any:
    """Multiply a quantized weight by its scales, to a value of the wanted type."""
    shape, element = [*wanted.shape], ir.F32Type.get()
    blocks = _typed(scheme.blocks(shape), element)
    numbers = _made("stablehlo.convert", _typed(shape, element), weight)
    axes = ir.DenseI64ArrayAttr.get([*scheme.scaled(shape)])
    spread = _made("stablehlo.broadcast_in_dim", blocks, scale, broadcast_dimensions=axes)
    if scheme.group:
        numbers = _made("stablehlo.reshape", blocks, numbers)
    product = _made("stablehlo.multiply", blocks, numbers, spread)
    if scheme.group:
        product = _made("stablehlo.reshape", _typed(shape, element), product)
    if wanted.element_type != element:
        product = _made("stablehlo.convert", wanted, product)
    return product


def _made(name: str, type_: Any, *operands: Any, **attributes: Any) -> Any:
    return ir.Operation.create(name, [type_], operands, attributes=attributes).results[0]
