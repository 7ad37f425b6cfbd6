"""Numerical workarounds for floats: powers, logarithms, conversions, and masked products.

In a product with booleans as numbers XLA selects, so a masked element may be NaN.
"""

from __future__ import annotations

from math import prod
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.engines.iree.repairs.repair_text import (
    BITS,
    FLOATS,
    UnrepairableError,
    bools,
    chosen,
    constants,
    kind_of,
    like,
    pair,
    put,
    replace,
    shape_of,
    within,
)


def power(operation: Any) -> None:
    """Compute powers by logarithms in float64, since IREE's float32 has 5 digits of large powers.

    Special cases are those of C's `pow`.
    """
    kind, element = kind_of(operation.results[0])
    if element not in FLOATS:
        return
    # IREE makes no small float16 of a float64.
    wide, single = like(kind, "f64"), kind if element == "f64" else like(kind, "f32")
    bits = like(kind, "i64")
    replace(
        operation,
        constants(wide, zero="0.0", one="1.0", two="2.0", infinity="0x7FF0000000000000")
        + f"""
    %x = stablehlo.convert %a0 : ({kind}) -> {wide}
    %y = stablehlo.convert %a1 : ({kind}) -> {wide}
    %size = stablehlo.abs %x : {wide}
    %log = stablehlo.log %size : {wide}
    %exponent = stablehlo.multiply %log, %y : {wide}
    %raw = stablehlo.exponential %exponent : {wide}
    %is_same = stablehlo.compare EQ, %y, %one : {pair(wide)}
    %exact = stablehlo.select %is_same, %size, %raw : {chosen(wide)}
    %is_one = stablehlo.compare EQ, %size, %one : {pair(wide)}
    %power = stablehlo.select %is_one, %one, %exact : {chosen(wide)}
    %floor = stablehlo.floor %y : {wide}
    %is_whole = stablehlo.compare EQ, %floor, %y : {pair(wide)}
    %half = stablehlo.divide %y, %two : {wide}
    %half_floor = stablehlo.floor %half : {wide}
    %is_half = stablehlo.compare NE, %half_floor, %half : {pair(wide)}
    %is_odd = stablehlo.and %is_half, %is_whole : {bools(wide)}
    %opposite = stablehlo.negate %power : {wide}
    %signed = stablehlo.select %is_odd, %opposite, %power : {chosen(wide)}
    %is_zero = stablehlo.compare EQ, %size, %zero : {pair(wide)}
    %is_infinite = stablehlo.compare EQ, %size, %infinity : {pair(wide)}
    %is_end = stablehlo.or %is_zero, %is_infinite : {bools(wide)}
    %none = stablehlo.divide %zero, %zero : {wide}
    %odd_case = stablehlo.select %is_end, %power, %none : {chosen(wide)}
    %below = stablehlo.select %is_whole, %signed, %odd_case : {chosen(wide)}
    %bits = stablehlo.bitcast_convert %x : ({wide}) -> {bits}
    %no_bits = stablehlo.constant dense<0> : {bits}
    %is_negative = stablehlo.compare LT, %bits, %no_bits, SIGNED : {pair(bits)}
    %all = stablehlo.select %is_negative, %below, %power : {chosen(wide)}
    %is_no_number = stablehlo.compare NE, %x, %x : {pair(wide)}
    %kept = stablehlo.select %is_no_number, %x, %all : {chosen(wide)}
    %to_zero = stablehlo.compare EQ, %y, %zero : {pair(wide)}
    %made = stablehlo.select %to_zero, %one, %kept : {chosen(wide)}
    %single = stablehlo.convert %made : ({wide}) -> {single}
    %r = stablehlo.convert %single : ({single}) -> {kind}
""",
    )


def refuse_double(operation: Any) -> None:
    """Raise UnrepairableError for float64, of which IREE loses digits near zero.

    It subtracts one from the rounded power, or takes the logarithm of the rounded sum.
    """
    if kind_of(operation.results[0])[1] == "f64":
        raise UnrepairableError(
            f"{operation.name} of float64, which XLA has: name xla after iree in `engines`"
        )


def convert(operation: Any) -> None:
    """Convert numbers as XLA does.

    Floats that fit into no integer become the nearest one, and NaN zero; integers become bfloat16,
    and float64 becomes float16, by way of float32; unsigned integers stay unsigned.
    """
    (kind, element), (given, wanted) = kind_of(operation.operands[0]), kind_of(operation.results[0])
    if element == wanted:
        return
    if element in BITS or element == "i1":
        _from_integer(operation, kind, element, given, wanted)
    elif (element, wanted) == ("f64", "f16"):
        single = like(kind, "f32")
        body = f"    %s = stablehlo.convert %a0 : ({kind}) -> {single}\n"
        replace(operation, body + f"    %r = stablehlo.convert %s : ({single}) -> {given}\n")
    elif element in FLOATS and wanted in BITS:
        _to_integer(operation, kind, element, given, wanted)


def _from_integer(operation: Any, kind: str, element: str, given: str, wanted: str) -> None:
    """Convert integers; unsigned ones and booleans behind a mask that keeps all of their bits.

    IREE otherwise fuses the conversion into a product, and forgets there that they have no sign.
    """
    bits = 1 if element == "i1" else BITS[element]
    unsigned = element == "i1" or element.startswith("u")
    is_masked = unsigned and bits < (BITS.get(wanted, 64))
    if wanted not in (*BITS, *FLOATS) or not (is_masked or wanted == "bf16"):
        return
    body = f"    %m = stablehlo.convert %a0 : ({kind}) -> {kind}\n"
    source = kind
    if is_masked:
        held = wanted if wanted in BITS else "i32" if bits < 32 else "i64"
        source = like(kind, held)
        body = (
            constants(source, mask=str(2**bits - 1))
            + f"    %i = stablehlo.convert %a0 : ({kind}) -> {source}\n"
            + f"    %m = stablehlo.and %i, %mask : {source}\n"
        )
    if wanted == "bf16":
        body += _BF16.format(
            source=source,
            given=given,
            single=like(kind, "f32"),
            bits=like(kind, "ui32"),
            half=like(kind, "ui16"),
            constants=constants(like(kind, "ui32"), most="32767", place="16", one="1"),
        )
    else:
        body += f"    %r = stablehlo.convert %m : ({source}) -> {given}\n"
    replace(operation, body)


_BF16 = """{constants}
    %s = stablehlo.convert %m : ({source}) -> {single}
    %bits = stablehlo.bitcast_convert %s : ({single}) -> {bits}
    %upper = stablehlo.shift_right_logical %bits, %place : {bits}
    %odd = stablehlo.and %upper, %one : {bits}
    %more = stablehlo.add %bits, %most : {bits}
    %rounded = stablehlo.add %more, %odd : {bits}
    %kept = stablehlo.shift_right_logical %rounded, %place : {bits}
    %half = stablehlo.convert %kept : ({bits}) -> {half}
    %r = stablehlo.bitcast_convert %half : ({half}) -> {given}
"""
"""To the nearest, of a float32 that is a number."""


def _to_integer(operation: Any, kind: str, element: str, given: str, wanted: str) -> None:
    bits, unsigned = BITS[wanted], wanted.startswith("u")
    lowest = 0 if unsigned else -(2 ** (bits - 1))
    beyond = 2**bits if unsigned else 2 ** (bits - 1)
    # float16 ends at 65504: to it, larger integers are infinite.
    above = f"{beyond:.1f}" if element != "f16" or beyond < 2**16 else "0x7C00"
    below = f"{lowest:.1f}" if element != "f16" or lowest > -(2**16) else "0xFC00"
    replace(
        operation,
        constants(kind, zero="0.0", above=above, below=below)
        + constants(given, least=str(lowest), most=str(beyond - 1), nothing="0")
        + f"""
    %is_above = stablehlo.compare GE, %a0, %above : {pair(kind)}
    %is_below = stablehlo.compare LE, %a0, %below : {pair(kind)}
    %is_none = stablehlo.compare NE, %a0, %a0 : {pair(kind)}
    %out = stablehlo.or %is_above, %is_below : {bools(kind)}
    %odd = stablehlo.or %out, %is_none : {bools(kind)}
    %safe = stablehlo.select %odd, %zero, %a0 : {chosen(kind)}
    %made = stablehlo.convert %safe : ({kind}) -> {given}
    %high = stablehlo.select %is_above, %most, %made : {chosen(given)}
    %low = stablehlo.select %is_below, %least, %high : {chosen(given)}
    %r = stablehlo.select %is_none, %nothing, %low : {chosen(given)}
""",
    )


_MASKED = ("f16", "f32", "f64")
"""Numbers whose products with booleans XLA selects."""


def masked(operation: Any) -> None:
    """Choose between a number and 0, by the booleans of the other factor."""
    if within(operation) or kind_of(operation.results[0])[1] not in _MASKED:
        return
    for place, factor in enumerate(operation.operands):
        condition = _condition(factor)
        if condition is None:
            continue
        value = operation.operands[1 - place]
        made = _selected(operation, condition, value)
        operation.results[0].replace_all_uses_with(made)
        operation.erase()
        return


def masked_product(operation: Any) -> None:
    """Choose before a product that multiplies numbers with those in their place and adds them."""
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    one = [*numbers.lhs_batching_dimensions, *numbers.lhs_contracting_dimensions]
    other = [*numbers.rhs_batching_dimensions, *numbers.rhs_contracting_dimensions]
    ranks = {len(shape_of(operand)) for operand in operation.operands}
    if one != other or ranks != {len(one)}:
        return
    for place, factor in enumerate(operation.operands):
        condition = _condition(factor)
        if condition is not None and kind_of(factor)[1] in ("f32", "f64"):
            value = operation.operands[1 - place]
            operation.operands[1 - place] = _selected(operation, condition, value)
            return


def _condition(value: Any) -> Any:
    """Return the booleans that a value has as numbers; None of others, and where XLA sees none.

    XLA treats constants as numbers, and broadcasts numbers instead of booleans.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.convert":
        return None
    condition = owner.operands[0]
    if kind_of(condition)[1] != "i1":
        return None
    maker = condition.owner
    if isinstance(maker, ir.Block):
        return condition
    if maker.name == "stablehlo.constant":
        return None
    if maker.name == "stablehlo.broadcast_in_dim":
        return condition if prod(shape_of(maker.operands[0])) == prod(shape_of(condition)) else None
    return condition


def _selected(operation: Any, condition: Any, value: Any) -> Any:
    kind = str(value.type)
    body = constants(kind, zero="0.0") + (
        f"    %r = stablehlo.select %a0, %a1, %zero : {chosen(kind)}\n"
    )
    (made,) = put(operation, body, [condition, value], [kind])
    return made
