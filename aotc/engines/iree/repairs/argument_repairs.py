"""Copies of arguments that IREE would write to, and calls of named functions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from jaxlib.mlir import ir

from aotc.engines.iree.repairs.repair_text import (
    BITS,
    FLOAT_BITS,
    UnrepairableError,
    kind_of,
    like,
    put,
)

WRITING = ("stablehlo.dynamic_update_slice", "stablehlo.scatter")
"""Operations whose result IREE may write over their operand."""

DONATED = ("tf.aliasing_output", "jax.buffer_donor")
"""Attributes of arguments that their callers give up."""


def composite(operation: Any) -> None:
    """Call what a named function is made of: IREE's own operations are not compared with XLA's."""
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


def _copy(operation: Any, value: Any) -> Any:
    """Return a copy that IREE does not remove as equal to its operand.

    Zeros derived from the bits of its numbers are joined to it.
    """
    given, element = kind_of(value)
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
        raise UnrepairableError(f"a copy of {element}, which IREE would write to")
    body = f"""{begin}
    %c0 = stablehlo.constant dense<{bits - 1}> : {kind}
    %c1 = stablehlo.constant dense<1> : {kind}
    %s0 = stablehlo.shift_right_logical %b, %c0 : {kind}
    %s1 = stablehlo.shift_right_logical %s0, %c1 : {kind}
    %x = stablehlo.xor %b, %s1 : {kind}
    {end}"""
    (made,) = put(operation, body, [value], [given])
    return made


def keep_arguments(module: Any, weights: Collection[int]) -> None:
    """Let the module update copies of its arguments, except those that callers donate.

    IREE writes the result of a scatter or an update into the argument itself if nothing else reads
    it.

    Args:
        module: The module, which is changed.
        weights: Positions of parameters that IREE holds as globals, which it does not write to.
    """
    written: set[str] = set()

    def visit(operation: Any) -> Any:
        if operation.name in WRITING:
            written.update(kind_of(value)[1] for value in operation.operands)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    main = ir.SymbolTable(module.operation)["main"]
    block = main.regions[0].blocks[0]
    attributes = (
        [*ir.ArrayAttr(main.attributes["arg_attrs"])] if "arg_attrs" in main.attributes else []
    )
    for place, value in enumerate(block.arguments):
        known = ir.DictAttr(attributes[place]) if attributes else ()
        given_up = any(name in known for name in DONATED)
        if place in weights or given_up or kind_of(value)[1] not in written:
            continue
        readers = [(use.owner, use.operand_number) for use in value.uses]
        copy = _copy(block.operations[0], value)
        for reader, number in readers:
            reader.operands[number] = copy
