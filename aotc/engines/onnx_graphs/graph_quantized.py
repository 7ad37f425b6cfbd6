"""Products of quantized numbers: operations of our own, found in a program before all others.

A small integer, less its zero point, times a scale is `DEQUANTIZE`; a float that is rounded and
kept within a small integer's limits is `QUANTIZE`. A product with weights of which the first is
made is `WEIGHTED`, a product of small integers less their zero points is `WHOLE`, and
`UNPACK` gives the numbers of 4 bits in a weight's bytes. What does not match exactly stays as it
is.
"""

from collections.abc import Collection

import ml_dtypes
import numpy as np

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs.graph_patterns import SPREAD, become, maker, number_of, pairs
from aotc.engines.onnx_graphs.stablehlo_program import NARROW, PARAMETERS, Block, Operation, Value

QUANTIZE, DEQUANTIZE = "aotc.quantize", "aotc.dequantize"
UNPACK, WEIGHTED = "aotc.unpack", "aotc.weighted_dot_general"
WHOLE = {
    "stablehlo.convolution": "aotc.whole_convolution",
    "stablehlo.dot_general": "aotc.whole_dot_general",
}
"""By the operation on numbers of any type."""

SMALL = ("i8", "ui8", *NARROW)
_WHOLE = ("i8", "ui8")


def fuse(program: Block, weights: Collection[int]) -> None:
    """Put such operations into a program and its blocks. weights: their places among arguments."""
    numbers = frozenset(id(program.arguments[place]) for place in weights)
    for operation in program.walk():
        match operation.name:
            case "stablehlo.convert":
                _quantize(operation, numbers) or _unpack(operation, numbers)
            case "stablehlo.multiply":
                _dequantize(operation)
            case "stablehlo.add":
                _is_paired(operation)
            case "stablehlo.convolution" | "stablehlo.dot_general":
                _is_paired(operation) or _whole(operation) or _replace_weighted(operation)


def _match_bounds(value: Value) -> tuple[Value, float, float]:
    """Return a value without its limits, and these."""
    low, high = -np.inf, np.inf
    while made_by := maker(value, "stablehlo.clamp", "stablehlo.minimum", "stablehlo.maximum"):
        ends = [number_of(each) for each in made_by.operands]
        if made_by.name == "stablehlo.clamp":
            least, _, most = ends
            place = 1
        else:
            place = 0 if ends[1] is not None else 1
            end = ends[1 - place]
            least, most = (end, np.inf) if made_by.name == "stablehlo.maximum" else (-np.inf, end)
        if least is None or most is None:
            break
        value, low, high = made_by.operands[place], max(low, least), min(high, most)
    return value, low, high


def _quantize(operation: Operation, weights: frozenset[int]) -> bool:
    """Match floats that are rounded, shifted and kept within the limits of a small integer."""
    element, (value,) = operation.result.element, operation.operands
    if element not in _WHOLE:
        return False
    limits, is_wide = np.iinfo(DTYPES[element]), value.element == "i32"
    wide = maker(value, "stablehlo.convert")
    if is_wide and wide is not None:
        (value,) = wide.operands
    if value.element != "f32":
        return False
    value, low, high = _match_bounds(value)
    if is_wide and not limits.min <= low <= high <= limits.max:
        return False  # an int32 that becomes a smaller integer wraps
    low, high = max(low, limits.min), min(high, limits.max)
    shift: list[Value] = []
    shifted = maker(value, "stablehlo.add")
    for rounded, zero in pairs(shifted) if shifted is not None else ():
        if maker(rounded, "stablehlo.round_nearest_even") and _fits(zero, element):
            value, shift = rounded, [zero]
            break
    made_by = maker(value, "stablehlo.round_nearest_even")
    if made_by is None or not low <= 0 <= high or low != int(low) or high != int(high):
        return False  # what is no number becomes 0
    (value,) = made_by.operands
    scale, divided = 1.0, maker(value, "stablehlo.divide")
    if divided is not None:
        by = number_of(divided.operands[1])
        if by is not None and np.finfo(np.float32).tiny <= by < np.inf:
            value, scale = divided.operands[0], by
    return become(
        operation,
        QUANTIZE,
        value,
        *shift,
        scale=scale,
        limits=(int(low), int(high)),
        is_number=_is_number(value, weights),
    )


def _unpack(operation: Operation, weights: frozenset[int]) -> bool:
    """Match the numbers of 4 bits in a weight's bytes, the low half first.

    `sizes` are those of the axes in which they are stored, `order` that in which they are used.
    """
    (value,) = operation.operands
    found, source = [], value
    for name in ("reshape", "transpose", "slice", "reshape", "and"):
        found.append(made_by := maker(source, f"stablehlo.{name}"))
        if made_by is not None:
            source = made_by.operands[0]
        elif name != "transpose":
            return False
    last, turned, cut, _, halves = found
    shifted = maker(source, "stablehlo.shift_right_logical")
    if last is None or cut is None or halves is None or shifted is None:
        return False
    spread, places = (maker(each, "stablehlo.broadcast_in_dim") for each in shifted.operands)
    if spread is None or places is None or number_of(halves.operands[1]) != _HALF_MAX:
        return False
    (data,), sizes = spread.operands, cut.result.shape
    known = maker(places.operands[0], "stablehlo.constant")
    rank = len(data.shape)
    if (
        id(data) not in weights
        or spread.result.shape != (*data.shape, 2)
        or (*spread.attributes["broadcast_dimensions"],) != (*range(rank),)
        or (*places.attributes["broadcast_dimensions"],) != (rank,)
        or known is None
        or known.attributes["value"].tolist() != [0, 4]
        or any(cut.attributes["start_indices"])
        or sizes not in ((*data.shape[:-1], 2 * data.shape[-1] - less) for less in (0, 1))
    ):
        return False
    value.element = "ui4"
    order = range(rank) if turned is None else turned.attributes["permutation"]
    return become(last, UNPACK, data, sizes=sizes, order=(*order,))


_HALF_MAX = 15
_STEPS_MAX = 16
_ARITHMETIC = (
    *(f"stablehlo.{name}" for name in ("add", "convolution", "dot_general", "maximum")),
    *SPREAD,
)


def _is_number(value: Value, weights: frozenset[int], steps: int = _STEPS_MAX) -> bool:
    """Return whether a value is computed of small integers, weights and constants alone.

    These are numbers: parity compares what is computed with them.
    """
    made_by = value.made_by
    if made_by is None or made_by.name == "stablehlo.constant":
        return made_by is not None or id(value) in weights
    if made_by.name not in (*_ARITHMETIC, DEQUANTIZE) or not steps:
        return False
    factors = made_by.operands[1:2] if made_by.name == DEQUANTIZE else made_by.operands
    return all(_is_number(each, weights, steps - 1) for each in factors)


def _dequantize(operation: Operation) -> bool:
    """Match small integers, less their zero points, times scales."""
    if operation.result.element != "f32":
        return False
    for value, scale in pairs(operation):
        found = _match_centered(value)
        if found is not None:
            return become(operation, DEQUANTIZE, found[0], scale, *found[1:])
    return False


def _match_centered(value: Value) -> list[Value] | None:
    """Return the small integers that a value is, and their zero points if it has such."""
    if value.element in SMALL:
        return [value]
    made_by = maker(value, "stablehlo.convert", "stablehlo.reshape")
    if made_by is not None:
        (inner,) = made_by.operands
        if inner.element not in (*SMALL, "i32", value.element):
            return None
        found = _match_centered(inner)
        is_moved = made_by.name == "stablehlo.reshape" and found is not None and len(found) > 1
        return None if is_moved else found
    made_by = maker(value, "stablehlo.subtract")
    if made_by is None or value.element not in ("i32", "f32"):
        return None
    wide, zero = made_by.operands
    found = _match_centered(wide)
    if found is None or len(found) > 1 or not _fits(zero, found[0].element):
        return None
    return [*found, zero]


def _fits(value: Value, element: str) -> bool:
    """Return whether numbers are those of a small integer type."""
    if (found := number_of(value)) is not None:
        limits = ml_dtypes.iinfo(PARAMETERS[element])
        return limits.min <= found <= limits.max and found == int(found)
    while made_by := maker(value, *SPREAD, "stablehlo.convert"):
        (value,) = made_by.operands
        if made_by.name == "stablehlo.convert":
            return value.element == element
    return False


def _is_paired(operation: Operation) -> bool:
    """Mark what is dequantized for one operation, of which an engine makes one of integers."""
    one, other = (maker(_source(each), DEQUANTIZE) for each in operation.operands)
    if one is None or other is None or _source(one.operands[1]).size != 1:
        return False
    free = _free(operation) if operation.operands[1].made_by is other else ()
    if _axes(other.operands[1]) not in ((), free):
        return False  # one dequantized factor alone has ONNX Runtime round the other to 8 bits
    one.attributes["paired"] = other.attributes["paired"] = operation.name
    other.attributes["free"] = free if other.attributes.get("free", free) == free else ()
    return True


def _axes(scale: Value) -> tuple[int, ...]:
    """Return the axes along which scales differ."""
    if _source(scale).size == 1:
        return ()
    made_by, places = maker(scale, "stablehlo.broadcast_in_dim"), range(len(scale.shape))
    sizes: tuple[int, ...] = scale.shape
    if made_by is not None:
        places, sizes = made_by.attributes["broadcast_dimensions"], made_by.operands[0].shape
    return tuple(int(axis) for axis, size in zip(places, sizes, strict=True) if size != 1)


def _free(operation: Operation) -> tuple[int, ...]:
    """Return the axis of a right factor along which its scales may differ, if it has one.

    ONNX Runtime takes scales along any other axis as those of the columns.
    """
    shape, numbers = operation.operands[1].shape, operation.attributes
    if operation.name == "stablehlo.convolution":
        return (numbers["dimension_numbers"]["kernel_output_feature_dimension"],)
    if operation.name != "stablehlo.dot_general" or len(shape) != 2:
        return ()
    summed = numbers["dot_dimension_numbers"]["rhs_contracting_dimensions"]
    return tuple({0, 1} - {*summed}) if len(summed) == 1 else ()


def _source(value: Value) -> Value:
    """Return what a value repeats, or has in another shape."""
    while made_by := maker(value, *SPREAD):
        (value,) = made_by.operands
    return value


def _whole(operation: Operation) -> bool:
    """Match products of small integers that are added in 32 bits."""
    if operation.result.element != "i32":
        return False
    found = [each for each in map(_match_centered, operation.operands) if each is not None]
    numbers, zeros = [each[0] for each in found], tuple(len(each) > 1 for each in found)
    if any(each.element not in _WHOLE for each in numbers):
        return False
    if [each.shape for each in numbers] != [each.shape for each in operation.operands]:
        return False
    operands = [*numbers, *(zero for each in found for zero in each[1:])]
    return become(operation, WHOLE[operation.name], *operands, **operation.attributes, zeros=zeros)


def _replace_weighted(operation: Operation) -> bool:
    """Match products whose right factor is dequantized, in blocks of its contracted axis or not.

    Of its numbers in `blocks`, those along the axes `summed` are contracted with the other factor;
    `free` are the other axes in the result's order.
    """
    if operation.name != "stablehlo.dot_general" or operation.result.element != "f32":
        return False
    numbers = operation.attributes["dot_dimension_numbers"]
    left, value = operation.operands
    if numbers["rhs_batching_dimensions"] or len(numbers["rhs_contracting_dimensions"]) != 1:
        return False
    (axis,) = numbers["rhs_contracting_dimensions"]
    order, turned = tuple(range(len(value.shape))), maker(value, "stablehlo.transpose")
    if turned is not None:
        order, (value,) = tuple(turned.attributes["permutation"]), turned.operands
        axis = order[axis]
    is_split, shape, merged = False, value.shape, maker(value, "stablehlo.reshape")
    if merged is not None and len(merged.operands[0].shape) == len(shape) + 1:
        (value,) = merged.operands
        split = (*shape[:axis], *value.shape[axis : axis + 2], *shape[axis + 1 :])
        if value.shape != split:
            return False
        is_split = True
    made_by = maker(value, DEQUANTIZE, "stablehlo.convert")
    if made_by is None or made_by.operands[0].element not in SMALL or left.element != "f32":
        return False
    return become(
        operation,
        WEIGHTED,
        left,
        *made_by.operands,
        dot_dimension_numbers={**numbers, "rhs_contracting_dimensions": (0,)},
        blocks=value.shape,
        summed=(axis, axis + 1) if is_split else (axis,),
        free=tuple(each + (is_split and each > axis) for each in order if each != axis),
    )
