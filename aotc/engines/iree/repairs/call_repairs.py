"""Sorts that keep the order of equals, and what jax calls by the name of a function."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir

from aotc.compile.mlir.jax_functions import dtype_of, element_of, put
from aotc.compile.mlir.mlir_context import DTYPES, operations_named
from aotc.engines.iree.repairs.repair_bodies import UnrepairableError

WRITING = ("stablehlo.dynamic_update_slice", "stablehlo.scatter")
"""Operations whose result IREE may write over their operand."""

DONATED = ("tf.aliasing_output", "jax.buffer_donor")
"""Attributes of arguments that their callers give up."""


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


def sort(numbers: Iterator[int], operation: Any) -> None:
    """Order equal elements by place, and sort copies: IREE does neither, and sorts in place.

    Arguments, weights, and inputs of other operations would be overwritten. An operand that holds
    the places, as that of an argsort does, decides itself: IREE rejects sorting two equal copies.
    The next of the numbers, from 1, makes the copies differ from those of other sorts.
    """
    number = next(numbers)
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
        (less,) = _cloned(old, arguments[: 2 * count])
        (more,) = _cloned(old, swapped)
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


def _cloned(block: Any, arguments: Sequence[Any]) -> list[Any]:
    """Return what a block returns for other arguments; put a copy of its operations in place."""
    known = dict(zip(block.arguments, arguments, strict=True))
    *operations, returned = block.operations
    for each in operations:
        copy = each.operation.clone()
        for index, operand in enumerate(each.operation.operands):
            copy.operands[index] = known.get(operand, operand)
        known.update(zip(each.operation.results, copy.results, strict=True))
    return [known.get(value, value) for value in returned.operation.operands]


def _create(name: str, type_: Any, *operands: Any) -> Any:
    return ir.Operation.create(name, results=[type_], operands=operands).result


def _holds_places(value: Any, dimension: Any) -> bool:
    """Return whether a value is that of `iota` along a dimension, whose type holds any place."""
    owner = value.owner
    return (
        not isinstance(owner, ir.Block)
        and owner.name == "stablehlo.iota"
        and owner.attributes["iota_dimension"] == dimension
        and element_of(value) in ("i32", "i64", "ui32", "ui64")
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
    element = element_of(value)
    if element not in DTYPES:
        raise UnrepairableError(f"a copy of {element}, which IREE would write to")
    bits = 8 * dtype_of(value).itemsize
    if number >= bits:
        raise UnrepairableError(f"more than {bits - 1} stablehlo.sort in one program")
    (made,) = put(operation, partial(_with_zeros, number, joined), value)
    return made


def _with_zeros(number: int, joined: str, value: Any) -> Any:
    """Return numbers with zeros added, which are their first bit shifted away."""
    bits, kind = 8 * value.dtype.itemsize, value.dtype
    if kind == np.bool_:
        numbers = value.astype(jnp.int8)
    else:
        whole = kind if kind.kind in "iu" else np.dtype(f"int{bits}")
        numbers = lax.bitcast_convert_type(value, whole)
    zeros = lax.shift_right_logical(numbers, jnp.full_like(numbers, bits - 1))
    zeros = lax.shift_right_logical(zeros, jnp.full_like(numbers, number))
    join = {"xor": lax.bitwise_xor, "or": lax.bitwise_or, "add": lax.add}[joined]
    made = join(numbers, zeros)
    return made != 0 if kind == np.bool_ else lax.bitcast_convert_type(made, kind)


def keep_arguments(module: Any, weights: Collection[int]) -> None:
    """Let the module update copies of its arguments, except donated ones.

    IREE writes the changes of a scatter or an update into the argument itself, if nothing else
    reads it. `weights` are places of parameters that IREE holds as globals and does not write to.
    """
    written = {
        element_of(value)
        for operation in operations_named(module, WRITING)
        for value in operation.operands
    }
    main = ir.SymbolTable(module.operation)["main"]
    block = main.regions[0].blocks[0]
    attributes = (
        [*ir.ArrayAttr(main.attributes["arg_attrs"])] if "arg_attrs" in main.attributes else []
    )
    for place, value in enumerate(block.arguments):
        known = ir.DictAttr(attributes[place]) if attributes else ()
        given_up = any(name in known for name in DONATED)
        if place in weights or given_up or element_of(value) not in written:
            continue
        readers = [(use.owner, use.operand_number) for use in value.uses]
        copy = _copy(block.operations[0], value, 1)
        for reader, number in readers:
            reader.operands[number] = copy
