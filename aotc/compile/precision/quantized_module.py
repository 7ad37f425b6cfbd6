"""Rewrites a module to take weights in 8 or 4 bits, with their scales as further parameters.

A function of jax restores each weight. Products stay as they are, or are replaced by those of
integers: `aotc.compile.precision.activations`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from jax import lax
from jaxlib.mlir import ir

from aotc.compile.mlir.jax_functions import dtype_of, put, shape_of
from aotc.compile.mlir.mlir_context import state_type
from aotc.compile.precision.activations import integer_product
from aotc.compile.precision.quantized_numbers import MIDDLE, Scheme
from aotc.compile.precision.weight_products import matrix_products

RESTORING = tuple(
    f"stablehlo.{op}" for op in ("multiply", "broadcast_in_dim", "reshape", "convert", "transpose")
)
"""Operations between a weight and its products."""


def take_quantized(
    module: ir.Module,
    schemes: Mapping[int, Scheme],
    units: Mapping[int, float | None] = MappingProxyType({}),
) -> int:
    """Give main parameters of these numbers quantized, each with a scale at the end, in order.

    Matrix products of the weights in `units` are those of integers, with this static scale of the
    other factor, or None for one of each row. Returns how many there are.
    """
    products = matrix_products(module, units) if units else []
    with module.context, ir.Location.unknown():
        main = ir.SymbolTable(module.operation)["main"]
        block = main.regions[0].blocks[0]
        first = block.operations[0]
        scales: dict[int, Any] = {}
        for number, scheme in sorted(schemes.items()):
            weight = block.arguments[number]
            uses = [(use.owner, use.operand_number) for use in weight.uses]
            shape = (*shape_of(weight),)
            function = restoring(scheme, shape, dtype_of(weight))
            integer = ir.Type.parse("ui8" if scheme.is_packed else "i8")
            weight.set_type(ir.RankedTensorType.get(scheme.stored_shape(shape), integer))
            scale_type = ir.RankedTensorType.get(scheme.scale_shape(shape), ir.F32Type.get())
            scale = block.add_argument(scale_type, ir.Location.unknown())
            (restored,) = put(first, function, weight, scale)
            for owner, place in uses:
                owner.operands[place] = restored
            scales[number] = scale
        for each in products:
            number, numbers = each.parameter, each.dimension_numbers
            summed, unit = schemes[number].contracted, units[number]
            function = integer_product(each.place, numbers, each.axes, summed, unit)
            factors = each.activation, block.arguments[number], scales[number]
            (product,) = put(each.operation, function, *factors)
            each.operation.results[0].replace_all_uses_with(product)
            each.operation.erase()
        for operation in reversed([*block.operations]) if products else ():
            if operation.operation.name in RESTORING and not any(
                True for result in operation.results for _ in result.uses
            ):
                operation.erase()
        state_type(main)
        if "arg_attrs" in main.attributes:
            known = [*ir.ArrayAttr(main.attributes["arg_attrs"])]
            known += [ir.DictAttr.get({})] * (len(block.arguments) - len(known))
            main.attributes["arg_attrs"] = ir.ArrayAttr.get(known)
    return len(products)


@lru_cache(maxsize=256)
def restoring(
    scheme: Scheme, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Callable[[Any, Any], Any]:
    """Return the function of a stored weight and its scales that returns the weight."""
    blocks = scheme.blocks(shape)

    def restored(weight: Any, scale: Any) -> Any:
        numbers = _unpack(weight, scheme, shape) if scheme.is_packed else weight
        numbers = lax.reshape(numbers, blocks).astype(np.float32)
        if scheme.is_packed:
            numbers = numbers - np.float32(MIDDLE)
        spread = lax.broadcast_in_dim(scale, blocks, scheme.scale_axes(shape))
        return lax.reshape(numbers * spread, shape).astype(dtype)

    return restored


def _unpack(weight: Any, scheme: Scheme, shape: Sequence[int]) -> Any:
    """Return the numbers of a packed weight, not negative, in a weight's shape."""
    order = scheme.order(len(shape))
    pairs = lax.broadcast_in_dim(weight, (*weight.shape, 2), range(len(order)))
    places = lax.broadcast_in_dim(np.array([0, 4], np.uint8), pairs.shape, (len(order),))
    halves = lax.shift_right_logical(pairs, places) & np.uint8(15)
    numbers = lax.reshape(halves, (*weight.shape[:-1], 2 * weight.shape[-1]))
    numbers = lax.slice_in_dim(numbers, 0, shape[order[-1]], axis=-1)
    return lax.transpose(numbers, np.argsort(order))
