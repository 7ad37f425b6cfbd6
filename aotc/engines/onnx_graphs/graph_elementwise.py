"""Operations on each number: arithmetic, comparisons, conversions, and functions of one number."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs.graph_builder import Graph, Tensor
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules, operand_rule
from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError

FLOATS = ("f16", "bf16", "f32", "f64")
_HALVES = ("f16", "bf16")
_BITS = {f"{sign}i{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}


def is_signed(element: str) -> bool:
    """Return whether it is a signed integer."""
    return element in _BITS and not element.startswith("u")


def computes_as_floats(graph: Graph, element: str) -> bool:
    """Return whether the engine computes these integers in float32, but sums and products."""
    return element == "i32" and not graph.names.kernels.operators


def to_computed(graph: Graph, tensor: Tensor) -> Tensor:
    """Return a half as a float32: what XLA, too, computes with."""
    return graph.cast(tensor, "f32") if tensor.element in _HALVES else tensor


def arithmetic(operator: str) -> Callable[[Rule], list[Tensor]]:
    """Return an operator of numbers of one type."""

    def rule(rule: Rule) -> list[Tensor]:
        graph, element = rule.graph, rule.operation.result.element
        operands = [to_computed(graph, each) for each in rule.operands]
        return [graph.cast(graph.each(operator, *operands), element)]

    return rule


def _on_floats(make: Callable[[Graph, Tensor], Tensor]) -> Callable[[Rule], list[Tensor]]:
    """Return a function of one float."""

    def rule(rule: Rule) -> list[Tensor]:
        graph, element = rule.graph, rule.operation.result.element
        made = make(graph, to_computed(graph, rule.operands[0]))
        return [graph.cast(made, element)]

    return rule


_ORDERED = {"Max": "GT", "Min": "LT"}
_WIDE_HALVES = dict.fromkeys(_HALVES, "f32")
_NARROW = {**_WIDE_HALVES, "i16": "i32", "ui16": "i32"}


def _logical(
    of_booleans: str, of_numbers: str, wide: Mapping[str, str] = _WIDE_HALVES
) -> Callable[..., Tensor]:
    """Return an operator that is another one for booleans; `wide` are types to compute with."""

    def combine(graph: Graph, *operands: Tensor) -> Tensor:
        element = operands[0].element
        if element == "i1":
            return graph.each(of_booleans, *operands)
        if of_numbers in _ORDERED and computes_as_floats(graph, element):
            return graph.where(compare_by(graph, _ORDERED[of_numbers], *operands), *operands)
        computed_with = (graph.cast(each, wide.get(element, element)) for each in operands)
        return graph.cast(graph.each(of_numbers, *computed_with), element)

    return combine


COMBINED = {
    "stablehlo.add": _logical("Or", "Add"),
    "stablehlo.and": _logical("And", "BitwiseAnd"),
    "stablehlo.maximum": _logical("Or", "Max", _NARROW),
    "stablehlo.minimum": _logical("And", "Min", _NARROW),
    "stablehlo.multiply": _logical("And", "Mul"),
    "stablehlo.or": _logical("Or", "BitwiseOr"),
    "stablehlo.xor": _logical("Xor", "BitwiseXor"),
}
"""Functions of two numbers that commute; of extremes, no number if one is none."""

largest, smallest = COMBINED["stablehlo.maximum"], COMBINED["stablehlo.minimum"]


def _negate(rule: Rule) -> list[Tensor]:
    (value,) = rule.operands
    if value.element.startswith("ui"):
        return [rule.graph.each("Sub", rule.graph.like(0, value), value)]
    return arithmetic("Neg")(rule)


def _subtract(rule: Rule) -> list[Tensor]:
    """Add the opposite: the sum is the same, and becomes part of a convolution."""
    graph, (one, other) = rule.graph, rule.operands
    if one.element in ("f32", "f64") and graph.is_folded(one, other):
        return [graph.each("Add", one, graph.each("Neg", other))]
    return arithmetic("Sub")(rule)


def _divide(rule: Rule) -> list[Tensor]:
    """Divide; an integer by zero gives -1, one by itself 1, and the lowest by -1 itself."""
    graph, (one, other) = rule.graph, rule.operands
    dividend, divisor = rule.operation.operands
    if dividend is divisor and one.element not in FLOATS:
        return [graph.like(1, one)]
    if one.element in ("f32", "f64") and graph.is_folded(one, other):
        return [graph.each("Mul", one, graph.each("Reciprocal", other))]
    if one.element in FLOATS or other.number not in (None, 0, -1):
        return arithmetic("Div")(rule)
    nothing, minus, safe = _safe_divisor(graph, other)
    quotient = graph.each("Div", one, safe)
    if minus is None:
        most = graph.constant(np.iinfo(DTYPES[one.element]).max, one.element)
        return [graph.where(nothing, most, quotient)]
    opposite = graph.each("Sub", graph.like(0, one), one)
    return [graph.where(nothing, graph.like(-1, one), graph.where(minus, opposite, quotient))]


def _safe_divisor(graph: Graph, other: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return where an integer is 0, where it is -1 if it has a sign, and it with 1 there."""
    nothing = graph.each("Equal", other, graph.like(0, other), element="i1")
    safe = graph.where(nothing, graph.like(1, other), other)
    if not is_signed(other.element):
        return nothing, None, safe
    minus = graph.each("Equal", other, graph.like(-1, other), element="i1")
    return nothing, minus, graph.where(minus, graph.like(1, other), safe)


def _remainder(rule: Rule) -> list[Tensor]:
    """Return the remainder with the dividend's sign; an integer by zero gives the dividend."""
    graph, (one, other) = rule.graph, rule.operands
    if one.element in FLOATS:
        rest = graph.each("Mod", to_computed(graph, one), to_computed(graph, other), fmod=1)
        return [graph.cast(rest, one.element)]
    if other.number not in (None, 0, -1):
        return [graph.each("Mod", one, other, fmod=1)]
    nothing, _, safe = _safe_divisor(graph, other)
    return [graph.where(nothing, one, graph.each("Mod", one, safe, fmod=1))]


def _power(rule: Rule) -> list[Tensor]:
    if rule.operands[0].element not in FLOATS:
        raise UnsupportedError("stablehlo.power of integers")
    return arithmetic("Pow")(rule)


def to_unsigned(graph: Graph, tensor: Tensor) -> Tensor:
    """Return the bits of an integer, without a sign."""
    return graph.cast(tensor, f"ui{_BITS[tensor.element]}")


def _shift(direction: str) -> Callable[[Rule], list[Tensor]]:
    """Return a shift of bits; by all of them or more it leaves none."""

    def shift(graph: Graph, value: Tensor, count: Tensor) -> Tensor:
        bits, by = to_unsigned(graph, value), to_unsigned(graph, count)
        shifted = graph.each("BitShift", bits, by, direction=direction)
        if by.number is None or by.number >= _BITS[value.element]:
            some = graph.each("Less", by, graph.like(_BITS[value.element], by), element="i1")
            shifted = graph.where(some, shifted, graph.like(0, bits))
        return graph.cast(shifted, value.element)

    return operand_rule(shift)


def _shift_arithmetic(graph: Graph, value: Tensor, count: Tensor) -> Tensor:
    # Also of an unsigned integer the highest bit is what comes in.
    element = value.element
    value = graph.cast(value, element.removeprefix("u"))
    by = to_unsigned(graph, count)
    by = graph.each("Min", graph.cast(by, "ui64"), graph.constant(_BITS[value.element] - 1, "ui64"))
    by = graph.cast(by, f"ui{_BITS[value.element]}")
    below = graph.each("Less", value, graph.like(0, value), element="i1")
    turned = graph.where(below, graph.each("BitwiseNot", value), value)
    shifted = graph.each("BitShift", to_unsigned(graph, turned), by, direction="RIGHT")
    shifted = graph.cast(shifted, value.element)
    made = graph.where(below, graph.each("BitwiseNot", shifted), shifted)
    return graph.cast(made, element)


def _count_bits(graph: Graph, bits: Tensor) -> Tensor:
    """Count the set bits of an unsigned 64-bit integer."""

    def number(value: int) -> Tensor:
        return graph.constant(np.uint64(value), "ui64")

    def right(value: Tensor, by: int) -> Tensor:
        return graph.each("BitShift", value, number(by), direction="RIGHT")

    def masked(value: Tensor, mask: int) -> Tensor:
        return graph.each("BitwiseAnd", value, number(mask))

    pairs = graph.each("Sub", bits, masked(right(bits, 1), 0x5555555555555555))
    quads = graph.each(
        "Add", masked(pairs, 0x3333333333333333), masked(right(pairs, 2), 0x3333333333333333)
    )
    bytes_ = masked(graph.each("Add", quads, right(quads, 4)), 0x0F0F0F0F0F0F0F0F)
    return right(graph.each("Mul", bytes_, number(0x0101010101010101)), 56)


def _popcnt(graph: Graph, value: Tensor) -> Tensor:
    count = _count_bits(graph, graph.cast(to_unsigned(graph, value), "ui64"))
    return graph.cast(count, value.element)


def _leading_zeros(graph: Graph, value: Tensor) -> Tensor:
    bits = graph.cast(to_unsigned(graph, value), "ui64")
    for by in (1, 2, 4, 8, 16, 32):
        shifted = graph.each("BitShift", bits, graph.like(by, bits), direction="RIGHT")
        bits = graph.each("BitwiseOr", bits, shifted)
    count = graph.cast(_count_bits(graph, bits), "i64")
    zeros = graph.each("Sub", graph.like(_BITS[value.element], count), count)
    return graph.cast(zeros, value.element)


_COMPARED = {
    "EQ": "Equal",
    "GE": "GreaterOrEqual",
    "GT": "Greater",
    "LE": "LessOrEqual",
    "LT": "Less",
}
_OF_BOOLEANS = {"i1": "i32", "i8": "i32", "i16": "i32", "ui8": "i32", "ui16": "i32", "ui32": "i64"}


def _compare(rule: Rule) -> list[Tensor]:
    attributes = rule.operation.attributes
    direction = attributes["comparison_direction"]
    one, other = rule.operands
    if attributes.get("compare_type") == "TOTALORDER":
        one, other = (order_key(rule.graph, each) for each in (one, other))
    return [compare_by(rule.graph, direction, one, other)]


def compare_by(graph: Graph, direction: str, one: Tensor, other: Tensor) -> Tensor:
    """Booleans that say how numbers compare, by StableHLO's word for it."""
    if direction == "NE":
        return graph.each("Not", compare_by(graph, "EQ", one, other))
    if one.element == "ui64" and direction != "EQ":
        lowest = graph.constant(np.uint64(2**63), "ui64")
        one, other = (
            graph.cast(graph.each("BitwiseXor", each, lowest), "i64") for each in (one, other)
        )
    wide = _OF_BOOLEANS.get(one.element, one.element)
    if one.element == "i1" and direction == "EQ":
        wide = "i1"
    operands = [
        graph.cast(
            to_computed(graph, each),
            wide
            if each.element in _BITS or each.element == "i1"
            else to_computed(graph, each).element,
        )
        for each in (one, other)
    ]
    return graph.each(_COMPARED[direction], *operands, element="i1")


def order_key(graph: Graph, value: Tensor) -> Tensor:
    """Return integers in IEEE 754's total order of floats."""
    value = to_computed(graph, value)
    element = "i32" if value.element == "f32" else "i64"
    return _reflect(graph, bit_cast(graph, value, element))


def from_order_key(graph: Graph, key: Tensor) -> Tensor:
    """Floats of 32 or 64 bits whose keys these are."""
    return bit_cast(graph, _reflect(graph, key), "f32" if key.element == "i32" else "f64")


def _reflect(graph: Graph, bits: Tensor) -> Tensor:
    """Invert all bits but the sign of what is below zero."""
    below = graph.each("Less", bits, graph.like(0, bits), element="i1")
    most = graph.constant(np.iinfo(DTYPES[bits.element]).max, bits.element)
    return graph.where(below, graph.each("BitwiseXor", bits, most), bits)


def bit_cast(graph: Graph, tensor: Tensor, element: str) -> Tensor:
    """Return a tensor's bits, read as another type of the same size."""
    if tensor.element == element:
        return tensor
    if tensor.constant is not None:
        return graph.constant(tensor.constant.view(DTYPES[element]), element)
    if element in _BITS and tensor.element in _BITS:
        return graph.cast(tensor, element)
    return graph.node("BitCast", [tensor], tensor.shape, element, to=element)


def from_four_bits(graph: Graph, value: Tensor, element: str) -> Tensor:
    """Integers of 8 bits that are the lower halves of bytes, with a sign or without."""
    wide = graph.cast(value, "i32")
    low = graph.each("BitwiseAnd", wide, graph.like(15, wide))
    if element.startswith("u"):
        return graph.cast(low, "ui8")
    sign = graph.like(8, wide)
    return graph.cast(graph.each("Sub", graph.each("BitwiseXor", low, sign), sign), "i8")


def _bit_cast(rule: Rule) -> list[Tensor]:
    element = rule.operation.result.element
    (value,) = rule.operands
    if DTYPES[element].itemsize != DTYPES[value.element].itemsize or "i1" in (
        element,
        value.element,
    ):
        raise UnsupportedError(f"stablehlo.bitcast_convert from {value.element} to {element}")
    return [bit_cast(rule.graph, value, element)]


def _convert(rule: Rule) -> list[Tensor]:
    return [convert(rule.graph, rule.operands[0], rule.operation.result.element)]


def convert(graph: Graph, value: Tensor, element: str) -> Tensor:
    """Convert as StableHLO does: floats that fit no integer become the nearest, NaN becomes 0."""
    if value.element == element:
        return value
    if element == "i1":
        zero = graph.like(0, to_computed(graph, value))
        return compare_by(graph, "NE", to_computed(graph, value), zero)
    if value.element not in FLOATS or element in FLOATS:
        return graph.cast(value, element)
    # The largest integer is between two floats, of which the next is too large.
    is_between = _BITS[element] == 64 or computes_as_floats(graph, element)
    wide = value if computes_as_floats(graph, element) else graph.cast(value, "f64")
    limits, dtype = np.iinfo(DTYPES[element]), DTYPES[wide.element].type
    highest = float(np.nextafter(dtype(limits.max), dtype(0)) if is_between else limits.max)
    fits = graph.each(
        "Min",
        graph.each("Max", wide, graph.like(float(limits.min), wide)),
        graph.like(highest, wide),
    )
    fits = graph.where(graph.is_nan(wide), graph.like(0, wide), fits)
    # A float64 goes by way of int64 where a direct cast would not keep the number.
    made = graph.cast(graph.cast(fits, element if is_between else "i64"), element)
    if is_between:
        above = graph.each("Greater", wide, graph.like(highest, wide), element="i1")
        made = graph.where(above, graph.constant(limits.max, element), made)
    return made


def _reduce_precision(rule: Rule) -> list[Tensor]:
    (value,), attributes = rule.operands, rule.operation.attributes
    wanted = attributes["exponent_bits"], attributes["mantissa_bits"]
    known = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
    if wanted == known.get(value.element):
        return [value]
    if wanted == known["bf16"] and value.element == "f32":
        return [rule.graph.cast(rule.graph.cast(value, "bf16"), "f32")]
    raise UnsupportedError(f"stablehlo.reduce_precision to {wanted} bits")


def _one(operator: str) -> Callable[[Graph, Tensor], Tensor]:
    return lambda graph, value: graph.each(operator, value)


def _expm1(graph: Graph, value: Tensor) -> Tensor:
    """Kahan's: what the exponential loses for small numbers, its logarithm loses as well."""
    one = graph.like(1, value)
    power = graph.each("Exp", value)
    less = graph.each("Sub", power, one)
    made = graph.each("Mul", less, graph.each("Div", value, graph.each("Log", power)))
    small = compare_by(graph, "EQ", power, one)
    lowest = compare_by(graph, "EQ", less, graph.like(-1, value))
    infinite = compare_by(graph, "EQ", graph.each("Abs", power), graph.like(math.inf, power))
    edge = graph.each("Or", lowest, infinite)
    return graph.where(small, value, graph.where(edge, less, made))


def _log1p(graph: Graph, value: Tensor) -> Tensor:
    one = graph.like(1, value)
    more = graph.each("Add", value, one)
    correction = graph.each("Div", value, graph.each("Sub", more, one))
    made = graph.each("Mul", graph.each("Log", more), correction)
    small = compare_by(graph, "EQ", more, one)
    infinite = compare_by(graph, "EQ", more, graph.like(math.inf, value))
    return graph.where(small, value, graph.where(infinite, more, made))


def _is_finite(graph: Graph, value: Tensor) -> Tensor:
    size = graph.each("Abs", to_computed(graph, value))
    return compare_by(graph, "LT", size, graph.like(math.inf, size))


def one_more_than_power(graph: Graph, value: Tensor) -> Tensor:
    """Return 1 + exp(-x), by which a number is divided to multiply it by a sigmoid.

    ONNX Runtime's Sigmoid is right within 1e-7, where results below are many times smaller: its
    logarithm of -20 is -inf.
    """
    return graph.each("Add", graph.each("Exp", graph.each("Neg", value)), graph.like(1, value))


def _logistic(graph: Graph, value: Tensor) -> Tensor:
    return graph.each("Reciprocal", one_more_than_power(graph, value))


def _cbrt(graph: Graph, value: Tensor) -> Tensor:
    wide = graph.cast(value, "f64")
    root = graph.each("Pow", graph.each("Abs", wide), graph.like(1 / 3, wide))
    root = graph.cast(graph.each("Mul", root, graph.each("Sign", wide)), value.element)
    return graph.where(compare_by(graph, "EQ", value, graph.like(0, value)), value, root)


def _sign(graph: Graph, value: Tensor) -> Tensor:
    odd = graph.each(
        "Or", graph.is_nan(value), compare_by(graph, "EQ", value, graph.like(0, value))
    )
    return graph.where(odd, value, graph.each("Sign", value))


def _sign_rule(rule: Rule) -> list[Tensor]:
    if rule.operands[0].element in FLOATS:
        return _on_floats(_sign)(rule)
    return arithmetic("Sign")(rule)


def _is_negative(graph: Graph, value: Tensor) -> Tensor:
    """Return whether a float has a sign."""
    bits = bit_cast(graph, value, "i32" if value.element == "f32" else "i64")
    return compare_by(graph, "LT", bits, graph.like(0, bits))


def _round_away(graph: Graph, value: Tensor) -> Tensor:
    size = graph.each("Abs", value)
    whole = graph.each("Floor", size)
    half = graph.each("Sub", size, whole)
    up = compare_by(graph, "GE", half, graph.like(0.5, value))
    rounded = graph.where(up, graph.each("Add", whole, graph.like(1, value)), whole)
    opposite = graph.each("Neg", rounded)
    return graph.where(_is_negative(graph, value), opposite, rounded)


def _atan2(graph: Graph, *sides: Tensor) -> Tensor:
    y, x = (to_computed(graph, each) for each in sides)
    up, right = graph.each("Abs", y), graph.each("Abs", x)
    least, most = graph.each("Min", up, right), graph.each("Max", up, right)
    zero, one = graph.like(0, x), graph.like(1, x)
    ratio = graph.each("Div", least, most)
    ratio = graph.where(compare_by(graph, "EQ", most, zero), zero, ratio)
    ratio = graph.where(compare_by(graph, "EQ", least, graph.like(math.inf, x)), one, ratio)
    angle = graph.each("Atan", ratio)
    steep = graph.each("Sub", graph.like(math.pi / 2, x), angle)
    angle = graph.where(compare_by(graph, "GT", up, right), steep, angle)
    behind = graph.each("Sub", graph.like(math.pi, x), angle)
    angle = graph.where(_is_negative(graph, x), behind, angle)
    angle = graph.where(_is_negative(graph, y), graph.each("Neg", angle), angle)
    neither = graph.each("Or", graph.is_nan(x), graph.is_nan(y))
    return graph.cast(graph.where(neither, graph.like(math.nan, x), angle), sides[0].element)


def _error_function(rule: Rule) -> list[Tensor]:
    if rule.operands[0].element == "f64":
        return rule.evaluate(rule.graph, rule.operation.blocks[0], rule.operands)
    return _on_floats(_one("Erf"))(rule)


def _constant(rule: Rule) -> list[Tensor]:
    result = rule.operation.result
    return [rule.graph.constant(rule.operation.attributes["value"], result.element)]


def _iota(rule: Rule) -> list[Tensor]:
    result, axis = rule.operation.result, rule.operation.attributes["iota_dimension"]
    numbers: Any = np.arange(result.shape[axis]).astype(DTYPES[result.element])
    return [
        rule.graph.constant(
            numbers.reshape(-1, *[1] * (len(result.shape) - axis - 1)), result.element
        )
    ]


RULES: Rules = {
    **{name: operand_rule(combine) for name, combine in COMBINED.items()},
    "chlo.erf": _error_function,
    "stablehlo.abs": arithmetic("Abs"),
    "stablehlo.atan2": operand_rule(_atan2),
    "stablehlo.bitcast_convert": _bit_cast,
    "stablehlo.cbrt": _on_floats(_cbrt),
    "stablehlo.ceil": _on_floats(_one("Ceil")),
    "stablehlo.clamp": operand_rule(
        lambda graph, low, value, high: smallest(graph, largest(graph, value, low), high)
    ),
    "stablehlo.compare": _compare,
    "stablehlo.constant": _constant,
    "stablehlo.convert": _convert,
    "stablehlo.cosine": _on_floats(_one("Cos")),
    "stablehlo.count_leading_zeros": operand_rule(_leading_zeros),
    "stablehlo.divide": _divide,
    "stablehlo.exponential": _on_floats(_one("Exp")),
    "stablehlo.exponential_minus_one": _on_floats(_expm1),
    "stablehlo.floor": _on_floats(_one("Floor")),
    "stablehlo.iota": _iota,
    "stablehlo.is_finite": operand_rule(_is_finite),
    "stablehlo.log": _on_floats(_one("Log")),
    "stablehlo.log_plus_one": _on_floats(_log1p),
    "stablehlo.logistic": _on_floats(_logistic),
    "stablehlo.negate": _negate,
    "stablehlo.not": operand_rule(_logical("Not", "BitwiseNot")),
    "stablehlo.optimization_barrier": lambda rule: list(rule.operands),
    "stablehlo.popcnt": operand_rule(_popcnt),
    "stablehlo.power": _power,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.remainder": _remainder,
    "stablehlo.round_nearest_afz": _on_floats(_round_away),
    "stablehlo.round_nearest_even": _on_floats(_one("Round")),
    "stablehlo.rsqrt": _on_floats(lambda g, value: g.each("Reciprocal", g.each("Sqrt", value))),
    "stablehlo.select": operand_rule(Graph.where),
    "stablehlo.shift_left": _shift("LEFT"),
    "stablehlo.shift_right_arithmetic": operand_rule(_shift_arithmetic),
    "stablehlo.shift_right_logical": _shift("RIGHT"),
    "stablehlo.sign": _sign_rule,
    "stablehlo.sine": _on_floats(_one("Sin")),
    "stablehlo.sqrt": _on_floats(_one("Sqrt")),
    "stablehlo.subtract": _subtract,
    "stablehlo.tan": _on_floats(_one("Tan")),
    "stablehlo.tanh": _on_floats(_one("Tanh")),
}
