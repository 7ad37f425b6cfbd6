"""Sorts that keep the order of equals, and what jax calls by the name of a function."""

from __future__ import annotations

import itertools
from typing import Any

from jaxlib.mlir import ir

from aotc.backends.iree.repairs.words import (
    BITS,
    FLOAT_BITS,
    UnrepairableError,
    cloned,
    like,
    put,
)

NUMBER = "aotc.number"
"""The attribute with the number of a sort, until it is repaired."""


def composite(operation: Any) -> None:
    """Call what a named function is made of: IREE's own `top_k` takes any of equals."""
    with ir.InsertionPoint(operation):
        call = ir.Operation.create(
            "func.call",
            results=[result.type for result in operation.results],
            operands=list(operation.operands),
            attributes={"callee": operation.attributes["decomposition"]},
        )
    for result, made in zip(operation.results, call.results, strict=True):
        result.replace_all_uses_with(made)
    operation.erase()


def sort(operation: Any) -> None:
    """Let the place decide between equals, since IREE keeps no order of them; sort copies, since it
    sorts in place: arguments, weights, and what other operations read.
    """
    number = ir.IntegerAttr(operation.attributes[NUMBER]).value
    old = operation.regions[0].blocks[0]
    operands, count = list(operation.operands), len(operation.operands)
    dimension = operation.attributes["dimension"]
    first = ir.RankedTensorType(operands[0].type)
    place = ir.IntegerType.get_signless(32)
    scalar = ir.RankedTensorType.get([], place)
    with ir.InsertionPoint(operation):
        places = ir.Operation.create(
            "stablehlo.iota",
            results=[ir.RankedTensorType.get(first.shape, place)],
            attributes={"iota_dimension": dimension},
        ).result
        copies = [_copy(operation, value, number) for value in (*operands, places)]
        sort = ir.Operation.create(
            "stablehlo.sort",
            results=[value.type for value in copies],
            operands=copies,
            attributes={
                name: operation.attributes[name]
                for name in ("dimension", "is_stable")
                if name in operation.attributes
            },
            regions=1,
        )
    types = [each.type for each in old.arguments] + [scalar, scalar]
    block = sort.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    arguments = list(block.arguments)
    swapped = [arguments[i ^ 1] for i in range(2 * count)]
    with ir.InsertionPoint(block):
        (less,) = cloned(old, arguments[: 2 * count])
        (more,) = cloned(old, swapped)
        direction = ir.Attribute.parse("#stablehlo<comparison_direction LT>")
        earlier = ir.Operation.create(
            "stablehlo.compare",
            results=[less.type],
            operands=arguments[2 * count :],
            attributes={"comparison_direction": direction},
        ).result
        tied = _create("stablehlo.not", less.type, more)
        tie = _create("stablehlo.and", less.type, tied, earlier)
        ir.Operation.create(
            "stablehlo.return", operands=[_create("stablehlo.or", less.type, less, tie)]
        )
    for result, new in zip(operation.results, sort.results, strict=False):
        result.replace_all_uses_with(new)
    operation.erase()


def _create(name: str, type_: Any, *operands: Any) -> Any:
    return ir.Operation.create(name, results=[type_], operands=operands).result


def _copy(operation: Any, value: Any, number: int) -> Any:
    """A copy that IREE makes: zeros that only the numbers' bits tell are added, by steps that no
    other sort shares. It takes out what it sees to be the same as its operand.
    """
    tensor = ir.RankedTensorType(value.type)
    element, given = str(tensor.element_type), str(value.type)
    if element == "i1":
        kind = like(given, "i8")
        begin, bits = f"%b = stablehlo.convert %a0 : ({given}) -> {kind}", 8
        end = f"""%n = stablehlo.constant dense<0> : {kind}
        %r = stablehlo.compare NE, %x, %n : ({kind}, {kind}) -> {given}"""
    elif element in FLOAT_BITS:
        bits = FLOAT_BITS[element]
        kind = like(given, f"i{bits}")
        begin = f"%b = stablehlo.bitcast_convert %a0 : ({given}) -> {kind}"
        end = f"%r = stablehlo.bitcast_convert %x : ({kind}) -> {given}"
    elif element in BITS:
        kind, bits = given, BITS[element]
        begin = f"%b = stablehlo.reshape %a0 : ({given}) -> {given}"
        end = f"%r = stablehlo.reshape %x : ({given}) -> {given}"
    else:
        raise UnrepairableError(f"stablehlo.sort of {element}")
    if number >= bits:
        raise UnrepairableError(f"more than {bits - 1} stablehlo.sort in one program")
    body = f"""{begin}
    %c0 = stablehlo.constant dense<{bits - 1}> : {kind}
    %c1 = stablehlo.constant dense<{number}> : {kind}
    %s0 = stablehlo.shift_right_logical %b, %c0 : {kind}
    %s1 = stablehlo.shift_right_logical %s0, %c1 : {kind}
    %x = stablehlo.xor %b, %s1 : {kind}
    {end}"""
    (made,) = put(operation, body, [value], [given])
    return made


def number_sorts(module: Any) -> None:
    """Give each sort a number from 1, by which its copies differ from those of others."""
    numbers = itertools.count(1)

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.sort":
            kind = ir.IntegerType.get_signless(64)
            operation.attributes[NUMBER] = ir.IntegerAttr.get(kind, next(numbers))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
