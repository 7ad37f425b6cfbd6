"""Sines and cosines of every float32, and of smaller floats, as a numerical workaround.

IREE's lose digits of negative numbers near zero and of all from a few hundred on, and are wrong
beyond 1e9. Quarter turns are subtracted in float64, and polynomials that are exact to float32's
last bits between -pi/4 and pi/4 do the rest. Numbers beyond 2^28 are m * 2^k with m below 2^24:
`table` holds the remainders of 2^k by a full turn.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

from aotc.engines.iree.repairs.repair_text import (
    UnrepairableError,
    chosen,
    constants,
    kind_of,
    like,
    pair,
    replace,
    shape_of,
    tensor,
    within,
)

_PI = Fraction(
    0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89,
    1 << 256,
)
"""To 256 bits."""

_LARGE = 28
"""Numbers from two to this are looked up."""

_QUARTER = (1.570796251296997, 7.549789415861596e-08, 5.390302858158119e-15)
"""pi / 2 in parts, the first two of 24 bits: their products with whole numbers below 2^28 are
exact."""


@cache
def table() -> tuple[list[float], list[float]]:
    """Return the remainders of 2^k by a full turn, for k from 0 to 104, in two parts.

    The first has 29 bits, so that its product with a float32's digits is exact.
    """
    turn = 2 * _PI
    first, second = [], []
    for k in range(105):
        rest = Fraction(2) ** k
        rest -= turn * round(rest / turn)
        high = Fraction(round(rest * 2**26), 2**26)
        first.append(float(high))
        second.append(float(rest - high))
    return first, second


def angle(operation: Any) -> None:
    """Rewrite sine or cosine with other operations."""
    kind, element = kind_of(operation.results[0])
    if element not in ("f16", "bf16", "f32"):
        return
    if parent := within(operation):
        raise UnrepairableError(f"{operation.name} within {parent}")
    shape = shape_of(operation.results[0])
    single, wide, whole = like(kind, "f32"), like(kind, "f64"), like(kind, "i32")
    first, second = table()
    kind_of_table = tensor([len(first)], "f64")
    numbers = (
        "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], "
        f"index_vector_dim = {len(shape)}>, slice_sizes = array<i64: 1>"
    )
    looked = f"<{{{numbers}}}> : ({kind_of_table}, {whole}) -> {wide}"
    high, middle, low = map(repr, _QUARTER)
    body = (
        constants(single, near="0.7853981", one="1.0", half="0.5", none="0.0")
        + constants(single, s1="-0.16666654611", s2="8.3321608736e-3", s3="-1.9515295891e-4")
        + constants(single, c1="4.166664568298827e-2", c2="-1.388731625493765e-3")
        + constants(single, c3="2.443315711809948e-5", bound=f"{2.0**_LARGE:.1f}")
        + constants(wide, share=repr(float(2 / _PI)), high=high, middle=middle, low=low, nil="0.0")
        + constants(whole, place="23", digits="8388607", hidden="1258291200", first="150")
        + constants(whole, shift="1" if operation.name == "stablehlo.cosine" else "0")
        + constants(whole, zero="0", unit="1", two="2", three="3", last=str(len(first) - 1))
        + f"""
    %firsts = stablehlo.constant dense<{first}> : {kind_of_table}
    %seconds = stablehlo.constant dense<{second}> : {kind_of_table}
    %x = stablehlo.convert %a0 : ({kind}) -> {single}
    %size = stablehlo.abs %x : {single}
    %bits = stablehlo.bitcast_convert %size : ({single}) -> {whole}
    %raised = stablehlo.shift_right_logical %bits, %place : {whole}
    %k = stablehlo.subtract %raised, %first : {whole}
    %index = stablehlo.clamp %zero, %k, %last : {whole}
    %part_1 = "stablehlo.gather"(%firsts, %index) {looked}
    %part_2 = "stablehlo.gather"(%seconds, %index) {looked}
    %digit_bits = stablehlo.and %bits, %digits : {whole}
    %number_bits = stablehlo.or %digit_bits, %hidden : {whole}
    %number = stablehlo.bitcast_convert %number_bits : ({whole}) -> {single}
    %sign = stablehlo.sign %x : {single}
    %signed = stablehlo.multiply %number, %sign : {single}
    %m = stablehlo.convert %signed : ({single}) -> {wide}
    %most = stablehlo.multiply %m, %part_1 : {wide}
    %more = stablehlo.multiply %m, %part_2 : {wide}
    %x_wide = stablehlo.convert %x : ({single}) -> {wide}
    %is_large = stablehlo.compare GE, %size, %bound : {pair(single)}
    %begun = stablehlo.select %is_large, %most, %x_wide : {chosen(wide)}
    %ended = stablehlo.select %is_large, %more, %nil : {chosen(wide)}
    %quarters = stablehlo.multiply %begun, %share : {wide}
    %n = stablehlo.round_nearest_even %quarters : {wide}
    %n_high = stablehlo.multiply %n, %high : {wide}
    %n_middle = stablehlo.multiply %n, %middle : {wide}
    %n_low = stablehlo.multiply %n, %low : {wide}
    %less_1 = stablehlo.subtract %begun, %n_high : {wide}
    %less_2 = stablehlo.subtract %less_1, %n_middle : {wide}
    %less_3 = stablehlo.subtract %less_2, %n_low : {wide}
    %rest = stablehlo.add %less_3, %ended : {wide}
    %odd = stablehlo.subtract %x, %x : {single}
    %is_finite = stablehlo.compare EQ, %odd, %none : {pair(single)}
    %known_n = stablehlo.select %is_finite, %n, %nil : {chosen(wide)}
    %turned = stablehlo.convert %known_n : ({wide}) -> {whole}
    %moved = stablehlo.add %turned, %shift : {whole}
    %quadrant = stablehlo.and %moved, %three : {whole}
    %reduced = stablehlo.convert %rest : ({wide}) -> {single}
    %is_near = stablehlo.compare LT, %size, %near : {pair(single)}
    %some = stablehlo.select %is_near, %x, %reduced : {chosen(single)}
    %t = stablehlo.select %is_finite, %some, %odd : {chosen(single)}
    %z = stablehlo.multiply %t, %t : {single}
    %s4 = stablehlo.multiply %s3, %z : {single}
    %s5 = stablehlo.add %s4, %s2 : {single}
    %s6 = stablehlo.multiply %s5, %z : {single}
    %s7 = stablehlo.add %s6, %s1 : {single}
    %s8 = stablehlo.multiply %s7, %z : {single}
    %s9 = stablehlo.multiply %s8, %t : {single}
    %s10 = stablehlo.add %s9, %t : {single}
    %is_zero = stablehlo.compare EQ, %t, %none : {pair(single)}
    %sine = stablehlo.select %is_zero, %t, %s10 : {chosen(single)}
    %c4 = stablehlo.multiply %c3, %z : {single}
    %c5 = stablehlo.add %c4, %c2 : {single}
    %c6 = stablehlo.multiply %c5, %z : {single}
    %c7 = stablehlo.add %c6, %c1 : {single}
    %c8 = stablehlo.multiply %c7, %z : {single}
    %c9 = stablehlo.multiply %c8, %z : {single}
    %c10 = stablehlo.multiply %z, %half : {single}
    %c11 = stablehlo.subtract %one, %c10 : {single}
    %cosine = stablehlo.add %c11, %c9 : {single}
    %parity = stablehlo.and %quadrant, %unit : {whole}
    %is_turned = stablehlo.compare EQ, %parity, %unit : {pair(whole)}
    %value = stablehlo.select %is_turned, %cosine, %sine : {chosen(single)}
    %minus = stablehlo.negate %value : {single}
    %half_turn = stablehlo.and %quadrant, %two : {whole}
    %is_opposite = stablehlo.compare EQ, %half_turn, %two : {pair(whole)}
    %made = stablehlo.select %is_opposite, %minus, %value : {chosen(single)}
    %r = stablehlo.convert %made : ({single}) -> {kind}
"""
    )
    replace(operation, body)
