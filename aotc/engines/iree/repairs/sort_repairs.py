"""Sorts that keep the order of equals, and what jax calls by the name of a function."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

from jaxlib.mlir import ir

from aotc.engines.iree.repairs.repair_text import (
    BITS,
    FLOAT_BITS,
    UnrepairableError,
    cloned,
    kind_of,
    like,
    put,
)

WRITING = ("stablehlo.dynamic_update_slice", "stablehlo.scatter")
"""Operations whose result IREE may write over their operand."""

DONATED = ("tf.aliasing_output", "jax.buffer_donor")
"""Attributes of arguments that their callers give up."""

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
    """Order equal elements by place, and sort copies: IREE does neither, and sorts in place.

    Arguments, weights, and inputs of other operations would be overwritten. An operand that holds
    the places, as that of an argsort does, decides itself: IREE rejects sorting two equal copies.
    """
    number = ir.IntegerAttr(operation.attributes[NUMBER]).value
    old = operation.regions[0].blocks[0]
    operands, count = list(operation.operands), len(operation.operands)
    dimension = operation.attributes["dimension"]
    first = ir.RankedTensorType(operands[0].type)
    place = ir.IntegerType.get_signless(32)
    with ir.InsertionPoint(operation):
        known = [i for i, value in enumerate(operands) if _holds_places(value, dimension)]
        if not known:
            places = ir.Operation.create(
                "stablehlo.iota",
                results=[ir.RankedTensorType.get(first.shape, place)],
                attributes={"iota_dimension": dimension},
            ).result
        sorted_ = operands if known else [*operands, places]
        copies = [
            _copy(operation, value, number, _JOINED[_earlier(sorted_, i)])
            for i, value in enumerate(sorted_)
        ]
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
    scalars = [] if known else [ir.RankedTensorType.get([], place)] * 2
    types = [each.type for each in old.arguments] + scalars
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
            operands=arguments[2 * known[0] : 2 * known[0] + 2]
            if known
            else arguments[2 * count :],
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


def _holds_places(value: Any, dimension: Any) -> bool:
    """Return whether a value is that of `iota` along a dimension, whose type holds any place."""
    owner = value.owner
    return (
        not isinstance(owner, ir.Block)
        and owner.name == "stablehlo.iota"
        and owner.attributes["iota_dimension"] == dimension
        and kind_of(value)[1] in ("i32", "i64", "ui32", "ui64")
    )


_JOINED = ("xor", "or", "add")
"""Operations that leave numbers as they are beside zeros."""


def _earlier(values: Sequence[Any], place: int) -> int:
    """Return how many values before a place are the same. Raises UnrepairableError for three."""
    count = sum(_is_same(values[place], each) for each in values[:place])
    if count >= len(_JOINED):
        raise UnrepairableError(f"a stablehlo.sort of {count + 1} operands that are the same")
    return count


def _is_same(one: Any, other: Any) -> bool:
    if one == other:
        return True
    if isinstance(one.owner, ir.Block) or isinstance(other.owner, ir.Block):
        return False
    return one.type == other.type and all(
        each.owner.name in ("stablehlo.iota", "stablehlo.constant") for each in (one, other)
    )


def _copy(operation: Any, value: Any, number: int, joined: str = _JOINED[0]) -> Any:
    """Return a copy that IREE does not remove, by adding zeros that depend on the numbers' bits.

    `number` differs for each sort, and `joined`, the operation that adds, for each copy of a value.
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
    if number >= bits:
        raise UnrepairableError(f"more than {bits - 1} stablehlo.sort in one program")
    body = f"""{begin}
    %c0 = stablehlo.constant dense<{bits - 1}> : {kind}
    %c1 = stablehlo.constant dense<{number}> : {kind}
    %s0 = stablehlo.shift_right_logical %b, %c0 : {kind}
    %s1 = stablehlo.shift_right_logical %s0, %c1 : {kind}
    %x = stablehlo.{joined} %b, %s1 : {kind}
    {end}"""
    (made,) = put(operation, body, [value], [given])
    return made


def _separated(module: Any) -> bool:
    """Give the second caller of a function that sorts a function of its own, if there is one."""
    functions: dict[str, Any] = {}
    sorting: set[str] = set()
    calls: list[tuple[Any, str, str]] = []
    for function in module.body.operations:
        name = ir.StringAttr(function.attributes["sym_name"]).value
        functions[name] = function.operation

        def visit(operation: Any, name: str = name) -> Any:
            if operation.name == "stablehlo.sort":
                sorting.add(name)
            elif operation.name == "func.call":
                callee = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
                calls.append((operation, name, callee))
            return ir.WalkResult.ADVANCE

        function.operation.walk(visit)
    for _ in functions:
        sorting |= {caller for _, caller, callee in calls if callee in sorting}
    known: set[str] = set()
    for call, _, callee in calls:
        if callee in sorting and callee in known:
            copy = functions[callee].clone(ip=ir.InsertionPoint(module.body))
            name = f"{callee}.{len(functions)}"
            copy.attributes["sym_name"] = ir.StringAttr.get(name)
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
            return True
        known.add(callee)
    return False


def keep_arguments(module: Any, weights: Collection[int]) -> None:
    """Let the module update copies of its arguments, except donated ones.

    IREE writes the changes of a scatter or an update into the argument itself, if nothing else
    reads it. `weights` are places of parameters that IREE holds as globals and does not write to.
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
        copy = _copy(block.operations[0], value, 1)
        for reader, number in readers:
            reader.operands[number] = copy


def number_sorts(module: Any) -> None:
    """Number the sorts from 1, so that their copies differ.

    A function with a sort is duplicated for each of its callers.
    """
    while _separated(module):
        pass
    numbers = itertools.count(1)

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.sort":
            kind = ir.IntegerType.get_signless(64)
            operation.attributes[NUMBER] = ir.IntegerAttr.get(kind, next(numbers))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
