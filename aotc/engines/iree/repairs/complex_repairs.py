"""Functions of complex numbers by those of their parts, which are repaired in turn: IREE's lose the
signs of zeros, and quotients and angles that are large or small.
"""

from __future__ import annotations

from typing import Any

from aotc.engines.iree.repairs.repair_text import (
    UnrepairableError,
    bools,
    chosen,
    constants,
    is_negative,
    kind_of,
    like,
    pair,
    replace,
)

_INFINITY = "0x7F800000"


def _parts(operation: Any) -> tuple[str, str] | None:
    """The types of a complex result and of its parts; None for one that is not complex."""
    kind, element = kind_of(operation.results[0])
    return (kind, like(kind, "f32")) if element == "complex<f32>" else None


def refuse(operation: Any) -> None:
    """Raises UnrepairableError for an operation on complex numbers."""
    if _parts(operation):
        raise UnrepairableError(f"{operation.name} of complex numbers")


def _of_parts(operation: Any, body: str, **numbers: str) -> None:
    """body: lines that make %x and %y, the parts of the result, of %re and %im."""
    types = _parts(operation)
    if types is None:
        return
    kind, part = types
    replace(
        operation,
        constants(part, **numbers)
        + f"    %re = stablehlo.real %a0 : ({kind}) -> {part}\n"
        + f"    %im = stablehlo.imag %a0 : ({kind}) -> {part}\n"
        + body.format(part=part, kind=kind, pair=pair(part), chosen=chosen(part))
        + f"\n    %r = stablehlo.complex %x, %y : {kind}\n",
    )


def exponential(operation: Any) -> None:
    """exp(a) (cos b + i sin b)"""
    _of_parts(
        operation,
        """
    %size = stablehlo.exponential %re : {part}
    %cos = stablehlo.cosine %im : {part}
    %sin = stablehlo.sine %im : {part}
    %is_none = stablehlo.compare EQ, %size, %zero : {pair}
    %is_real = stablehlo.compare EQ, %im, %zero : {pair}
    %x_some = stablehlo.multiply %size, %cos : {part}
    %y_some = stablehlo.multiply %size, %sin : {part}
    %x = stablehlo.select %is_none, %zero, %x_some : {chosen}
    %y_more = stablehlo.select %is_real, %im, %y_some : {chosen}
    %y = stablehlo.select %is_none, %zero, %y_more : {chosen}""",
        zero="0.0",
    )


def log(operation: Any) -> None:
    """IREE's logarithm of the size, and the angle"""
    _of_parts(
        operation,
        """
    %log = stablehlo.log %a0 : {kind}
    %x = stablehlo.real %log : ({kind}) -> {part}
    %y = stablehlo.atan2 %im, %re : {part}""",
    )


def log_plus_one(operation: Any) -> None:
    """IREE's logarithm of the size, and the angle"""
    _of_parts(
        operation,
        """
    %log = stablehlo.log_plus_one %a0 : {kind}
    %x = stablehlo.real %log : ({kind}) -> {part}
    %more = stablehlo.add %re, %one : {part}
    %y = stablehlo.atan2 %im, %more : {part}""",
        one="1.0",
    )


def divide(operation: Any) -> None:
    """Smith's quotient, with the cases of C's annex G where it is no number."""
    types = _parts(operation)
    if types is None:
        return
    kind, part = types
    both, either = f"{bools(part)}", chosen(part)
    lines = [constants(part, zero="0.0", one="1.0", infinity=_INFINITY)]

    def put(name: str, word: str, *operands: str) -> str:
        given = {"select": either, "compare EQ,": pair(part), "compare LT,": pair(part)}
        given |= {"compare NE,": pair(part), "and": both, "or": both}
        lines.append(
            f"    %{name} = stablehlo.{word} {', '.join(operands)} : {given.get(word, part)}"
        )
        return f"%{name}"

    for place, letter in enumerate("abcd"):
        word, number = ("real", "imag")[place % 2], place // 2
        lines.append(f"    %{letter} = stablehlo.{word} %a{number} : ({kind}) -> {part}")
    for letter in "abcd":
        size = put(f"{letter}_size", "abs", f"%{letter}")
        infinite = put(f"{letter}_infinite", "compare EQ,", size, "%infinity")
        put(f"{letter}_finite", "compare LT,", size, "%infinity")
        put(f"{letter}_number", "compare EQ,", f"%{letter}", f"%{letter}")
        lines.append(is_negative(f"%{letter}", f"%{letter}_negative", part, "f32").rstrip())
        put(f"{letter}_below", "negate", f"%{letter}_size")
        unit = put(f"{letter}_unit", "select", infinite, "%one", "%zero")
        against = put(f"{letter}_against", "negate", unit)
        put(f"{letter}_box", "select", f"%{letter}_negative", against, unit)
    sums: list[str] = []
    for number, (c, d) in enumerate((("c", "d"), ("d", "c"))):
        # The quotients by the larger part of the divisor.
        ratio = put(f"ratio{number}", "divide", f"%{d}", f"%{c}")
        share = put(f"share{number}", "multiply", f"%{d}", ratio)
        below = put(f"below{number}", "add", f"%{c}", share)
        a_part = put(f"a_part{number}", "multiply", "%a", ratio)
        b_part = put(f"b_part{number}", "multiply", "%b", ratio)
        if number == 0:
            above_x = put("above_x0", "add", "%a", b_part)
            above_y = put("above_y0", "subtract", "%b", a_part)
        else:
            above_x = put("above_x1", "add", a_part, "%b")
            above_y = put("above_y1", "subtract", b_part, "%a")
        sums += [
            put(f"x{number}", "divide", above_x, below),
            put(f"y{number}", "divide", above_y, below),
        ]
    smaller = put("smaller", "compare LT,", "%c_size", "%d_size")
    x = put("x_plain", "select", smaller, sums[2], sums[0])
    y = put("y_plain", "select", smaller, sums[3], sums[1])
    x_none, y_none = put("x_none", "compare NE,", x, x), put("y_none", "compare NE,", y, y)
    none = put("none", "and", x_none, y_none)

    # Something over zero.
    c_zero = put("c_zero", "compare EQ,", "%c_size", "%zero")
    d_zero = put("d_zero", "compare EQ,", "%d_size", "%zero")
    over_zero = put("over_zero", "and", c_zero, d_zero)
    known = put("known", "or", "%a_number", "%b_number")
    is_zero_case = put("zero_case", "and", over_zero, known)
    minus = put("minus", "negate", "%infinity")
    signed = put("signed", "select", "%c_negative", minus, "%infinity")
    zero_x, zero_y = (
        put("zero_x", "multiply", signed, "%a"),
        put("zero_y", "multiply", signed, "%b"),
    )

    # An infinite number over a finite one, and a finite one over an infinite one.
    def crossed(name: str, scale: str, a: str, b: str, c: str, d: str) -> tuple[str, str]:
        ac, bd = put(f"{name}_ac", "multiply", a, c), put(f"{name}_bd", "multiply", b, d)
        bc, ad = put(f"{name}_bc", "multiply", b, c), put(f"{name}_ad", "multiply", a, d)
        plus, less = put(f"{name}_plus", "add", ac, bd), put(f"{name}_less", "subtract", bc, ad)
        return (
            put(f"{name}_x", "multiply", scale, plus),
            put(f"{name}_y", "multiply", scale, less),
        )

    above = put("above", "or", "%a_infinite", "%b_infinite")
    beneath = put("beneath", "or", "%c_infinite", "%d_infinite")
    above_finite = put("above_finite", "and", "%a_finite", "%b_finite")
    beneath_finite = put("beneath_finite", "and", "%c_finite", "%d_finite")
    is_large = put("is_large", "and", above, beneath_finite)
    is_small = put("is_small", "and", above_finite, beneath)
    large = crossed("large", "%infinity", "%a_box", "%b_box", "%c", "%d")
    small = crossed("small", "%zero", "%a", "%b", "%c_box", "%d_box")
    for place, (case, values) in enumerate(
        ((is_small, small), (is_large, large), (is_zero_case, (zero_x, zero_y)))
    ):
        x_case = put(f"x_case{place}", "select", case, values[0], x)
        y_case = put(f"y_case{place}", "select", case, values[1], y)
        x, y = x_case, y_case
    x = put("x_made", "select", none, x, "%x_plain")
    y = put("y_made", "select", none, y, "%y_plain")
    lines.append(f"    %r = stablehlo.complex {x}, {y} : {kind}")
    replace(operation, "\n".join(lines))
