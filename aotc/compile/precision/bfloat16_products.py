"""Products of float32 numbers as products of bfloat16 ones, with sums and results of float32.

Factors are rounded by `reduce_precision` before they are converted: XLA may drop a conversion to
bfloat16 and back, since it may compute with more digits than a type has, but not that.
"""

from collections.abc import Collection, Iterator
from typing import Any

from jaxlib.mlir import ir

from aotc.compile.mlir.jax_functions import element_of, inlined, shape_of, state_type
from aotc.compile.mlir.mlir_context import operations_named
from aotc.compile.precision.weight_products import PRODUCTS, erase_unused, products_with


def float32_products(module: ir.Module, kept: Collection[int]) -> Iterator[Any]:
    """Yield a module's products of float32 numbers, but those with the weights `kept`.

    They are numbers of main parameters. Calls of the main function are inlined first. Products with
    an algorithm of their own are left out.
    """
    others = products_with(module, kept)
    for operation in operations_named(module, PRODUCTS):
        values = (operation.operands[0], operation.operands[1], operation.results[0])
        is_stated = "algorithm" in operation.attributes
        if not is_stated and operation not in others and {*map(element_of, values)} == {"f32"}:
            yield operation


def round_factors(module: ir.Module, kept: Collection[int]) -> None:
    """Round the factors of these products to numbers of bfloat16, which stay float32."""
    with module.context, ir.Location.unknown():
        for operation in float32_products(module, kept):
            for place in range(2):
                operation.operands[place] = _rounded(operation.operands[place], operation)


def multiply_bfloat16(module: ir.Module, stored: Collection[int], kept: Collection[int]) -> int:
    """Let these products take bfloat16, and main parameters `stored` be weights of bfloat16.

    Returns how many there are.
    """
    with module.context, ir.Location.unknown():
        products = [*float32_products(module, kept)]
        main = inlined(module)
        block = main.regions[0].blocks[0]
        first = block.operations[0]
        for number in stored:
            weight = block.arguments[number]
            uses = [(use.owner, use.operand_number) for use in weight.uses]
            weight.set_type(_typed(weight, ir.BF16Type.get()))
            wide = _made("convert", _typed(weight, ir.F32Type.get()), weight, first)
            for owner, place in uses:
                owner.operands[place] = wide
        for operation in products:
            for place in range(2):
                operation.operands[place] = _narrow(operation.operands[place], operation)
            if "precision_config" in operation.attributes:
                del operation.attributes["precision_config"]
        erase_unused(block)
        state_type(main)
    return len(products)


def _narrow(value: Any, before: Any) -> Any:
    """Return a value as bfloat16, without rounding what a weight of bfloat16 is."""
    made_by = "" if isinstance(value.owner, ir.Block) else value.owner.operation.name
    source = value.owner.operands[0] if made_by else None
    if made_by == "stablehlo.convert" and element_of(source) == "bf16":
        return source
    if made_by == "stablehlo.transpose":
        type_, order = _typed(value, ir.BF16Type.get()), value.owner.attributes["permutation"]
        return _made("transpose", type_, _narrow(source, before), before, permutation=order)
    rounded = _rounded(value, before)
    return _made("convert", _typed(value, ir.BF16Type.get()), rounded, before)


def _rounded(value: Any, before: Any) -> Any:
    bits = {"exponent_bits": 8, "mantissa_bits": 7}
    integer = ir.IntegerType.get_signless(32)
    stated = {name: ir.IntegerAttr.get(integer, many) for name, many in bits.items()}
    return _made("reduce_precision", value.type, value, before, **stated)


def _typed(value: Any, element: Any) -> Any:
    return ir.RankedTensorType.get(shape_of(value), element)


def _made(name: str, type_: Any, operand: Any, before: Any, **attributes: Any) -> Any:
    made = ir.Operation.create(
        f"stablehlo.{name}",
        results=[type_],
        operands=[operand],
        attributes=attributes,
        ip=ir.InsertionPoint(before),
    )
    return made.results[0]
