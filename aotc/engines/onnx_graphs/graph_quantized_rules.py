"""Operations of `graph_quantized` as operators of ONNX, or as the arithmetic that they are."""

from collections.abc import Sequence
from math import prod

import numpy as np

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs import graph_quantized
from aotc.engines.onnx_graphs.graph_builder import Attribute, Graph, Tensor
from aotc.engines.onnx_graphs.graph_elementwise import largest, smallest
from aotc.engines.onnx_graphs.graph_products import arrange_factors, convolve, product
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules
from aotc.engines.onnx_graphs.stablehlo_program import NARROW, UnsupportedError

_MIDDLE = 128
"""The difference between a number of int8 and the one of uint8 in its place."""

_EXACT = 2**24
"""Sums up to which float32 adds integers exactly, in any order."""

_FLOAT32, _INT8 = 1, 4
"""MatMulNBits's numbers of a precision to which it rounds the left factor."""

_SHIFT = 2.0**24
"""A power of two by which left factors are smaller and scales larger. Engines that multiply by the
scales behind the sum exceed float32's range with the left factor's largest numbers otherwise."""

_BLOCKS = (128, 64, 32, 16)
"""Sizes of blocks that MatMulNBits takes, in order of preference."""


def _quantize(rule: Rule) -> list[Tensor]:
    """Round as QuantizeLinear does, which makes the lowest number of one that is none."""
    graph, element, value = rule.graph, rule.operation.result.element, rule.operands[0]
    scale, (low, high), is_number = (
        rule.operation.attributes[name] for name in ("scale", "limits", "is_number")
    )
    zero = rule.operands[1] if len(rule.operands) > 1 else graph.constant(0, "f32")
    # XLA makes 0 of what is no number.
    none = None if is_number else graph.is_nan(value)
    if none is not None and zero.number is not None:
        value = graph.where(none, graph.like(0.0 - zero.number * scale, value), value)
        none = None
    limits, by = np.iinfo(DTYPES[element]), graph.like(scale, value)
    if not graph.names.kernels.operators or prod(zero.shape) != 1:
        made = value if scale == 1 else graph.each("Div", value, by)
        made = graph.each("Add", graph.each("Round", made), zero)
        for operator, end in (("Max", low), ("Min", high)):
            made = graph.each(operator, made, graph.like(end, made))
        if none is not None:
            made = graph.where(none, graph.like(0, made), made)
        return [graph.cast(graph.cast(made, "i32"), element)]

    def rounded(element: str, shift: int) -> Tensor:
        offset = _shift(graph, graph.reshape(zero, ()), element, shift)
        made = graph.node("QuantizeLinear", [value, by, offset], value.shape, element)
        if low > limits.min:
            made = largest(graph, made, graph.like(low + shift, made))
        if high < limits.max:
            made = smallest(graph, made, graph.like(high + shift, made))
        return made if none is None else graph.where(none, graph.like(shift, made), made)

    made = rounded(element, 0)
    if element == "i8":
        graph.names.unsigned[made.name] = rounded("ui8", _MIDDLE)
    return [made]


def _shift(graph: Graph, tensor: Tensor, element: str, shift: int) -> Tensor:
    """Return whole numbers, with a number added, as a small integer type that holds the sums."""
    if tensor.constant is not None:
        return graph.constant(tensor.constant.astype(np.int64) + shift, element)
    if shift:
        wide = graph.cast(tensor, "i32")
        tensor = graph.each("Add", wide, graph.like(shift, wide))
    return graph.cast(tensor, element)


def _dequantize(rule: Rule) -> list[Tensor]:
    """Multiply by a scale: an operator for numbers of a call, and for factors of a product."""
    graph, operation = rule.graph, rule.operation
    numbers = graph.reshape(rule.whole(0), operation.result.shape)
    scale, zeros = rule.operands[1], rule.operands[2:]
    is_fixed = numbers.name in graph.names.fixed
    paired = operation.attributes.get("paired", "")
    is_usable = bool(paired) if is_fixed else prod(scale.shape) == 1
    rank = len(numbers.shape) - len(scale.shape)
    axes = tuple(axis + rank for axis, size in enumerate(scale.shape) if size != 1)
    if (
        not graph.names.kernels.operators
        or not is_usable
        or operation.operands[0].element in NARROW
        or axes not in ((), operation.attributes.get("free", ()))
        or any(prod(each.shape) != 1 and each.shape != scale.shape for each in zeros)
    ):
        return [_widen(graph, numbers, scale, zeros)]
    row = (prod(scale.shape),) if axes else ()
    where = {"axis": axes[0]} if axes else {}
    zero = zeros[0] if zeros else graph.constant(0, "i32")
    is_weight = is_fixed and paired != "stablehlo.add"
    if paired and not (is_weight and graph.names.kernels.signed):
        numbers, zero = _to_unsigned(graph, numbers, zero)
    offset = graph.full(_shift(graph, zero, numbers.element, 0), row)
    inputs = [numbers, graph.reshape(scale, row), offset]
    return [graph.node("DequantizeLinear", inputs, numbers.shape, "f32", **where)]


def _widen(graph: Graph, numbers: Tensor, scale: Tensor, zeros: Sequence[Tensor]) -> Tensor:
    """Small integers less their zero points, times a scale."""
    wide = graph.cast(numbers, "f32")
    for zero in zeros:
        wide = graph.each("Sub", wide, graph.cast(zero, "f32"))
    return wide if scale.number == 1 else graph.each("Mul", wide, scale)


def _unpack(rule: Rule) -> list[Tensor]:
    """Give the halves of bytes as integers; products that take the bytes leave them unused."""
    graph, data = rule.graph, rule.whole(0)
    sizes, order = rule.operation.attributes["sizes"], rule.operation.attributes["order"]
    wide = graph.cast(data, "f32")
    high = graph.each("Floor", graph.each("Mul", wide, graph.like(1 / 16, wide)))
    low = graph.each("Sub", wide, graph.each("Mul", high, graph.like(16, high)))
    halves = [graph.reshape(each, (*data.shape, 1)) for each in (low, high)]
    numbers = graph.cast(graph.concat(halves, len(data.shape)), "ui8")
    numbers = graph.reshape(numbers, (*data.shape[:-1], 2 * data.shape[-1]))
    numbers = graph.transpose(graph.part(numbers, len(sizes) - 1, 0, sizes[-1]), order)
    made = graph.reshape(numbers, rule.operation.result.shape)
    graph.names.packed[made.name] = data
    return [made]


def _bytes_of(rule: Rule) -> Tensor | None:
    """Return the bytes of a product's weight if its contracted axis is last in them."""
    made_by, attributes = rule.operation.operands[1].made_by, rule.operation.attributes
    if made_by is None or made_by.name != graph_quantized.UNPACK:
        return None
    axis, *_ = attributes["summed"]
    stored = np.argsort(made_by.attributes["order"]).tolist()
    places = [each - (each > axis) for each in attributes["free"]]
    if stored != [*places, axis] or made_by.attributes["sizes"][-1] % 2:
        return None
    return rule.graph.names.packed.get(rule.operands[1].name)


def _weighted_product(rule: Rule) -> list[Tensor]:
    """Multiply by quantized weights, of 4 bits as they are: that is as exact as float32.

    Of 8 bits, MatMulNBits is slow unless it rounds the other factor to 8 bits, as an option of the
    target asks for.
    """
    graph, is_rounding = rule.graph, rule.graph.names.kernels.rounding
    bits = 4 if rule.operation.operands[1].element in NARROW else 8
    middle, left, result = 1 << bits - 1, rule.whole(0), rule.operation.result.shape
    numbers, *others = (_flat(rule, place) for place in range(1, len(rule.operands)))
    *many, within, columns = numbers.shape
    size = next((each for each in _BLOCKS if within % each == 0), 0)
    scale, depth = others[0] if others else graph.constant([[1]], "f32"), prod(many) * within
    is_unsigned = rule.operation.operands[1].element.startswith("u")
    zero = others[1].number if len(others) > 1 else 0 if is_unsigned else None
    if (
        not graph.names.kernels.operators
        or (bits == 8 and not is_rounding)
        or numbers.name not in graph.names.fixed
        or len(others) > 2
        or 0 in (size, columns)
        or scale.shape[-2] != 1
        or (len(others) > 1 and (not is_unsigned or zero != middle))
    ):
        if others and not graph.names.kernels.operators and numbers.name in graph.names.fixed:
            left, scale = _shift_scales(graph, left, scale)
        right = graph.full(_widen(graph, numbers, scale, others[1:]), numbers.shape)
        return [product(rule, left, graph.reshape(right, (depth, columns)))]
    left, scale = _shift_scales(graph, left, scale)
    last = (len(numbers.shape) - 1, *range(len(numbers.shape) - 1))
    scale = graph.transpose(graph.full(scale, (*many, 1, columns)), last)
    scale = graph.reshape(scale, (columns, prod(many), 1))
    scale = graph.full(scale, (columns, prod(many), within // size))
    packed, offset = _bytes_of(rule), 0 if is_unsigned else middle
    if bits == 8:
        packed = _shift(graph, graph.transpose(numbers, last), "ui8", offset)
    elif packed is None:
        pairs = graph.reshape(graph.transpose(numbers, last), (columns, depth // 2, 2))
        pairs = _shift(graph, pairs, "i32", offset)
        even, odd = (graph.part(pairs, 2, place, place + 1) for place in (0, 1))
        high = graph.each("Mul", odd, graph.like(16, odd))
        packed = graph.cast(graph.each("Add", even, high), "ui8")
    shape = (columns, depth // size)
    inputs = [graph.reshape(packed, (*shape, size * bits // 8)), graph.reshape(scale, shape)]
    if zero == 0:
        inputs.append(graph.constant(np.zeros((columns, -(-shape[1] * bits // 8))), "ui8"))
    (axis,) = rule.operation.attributes["dot_dimension_numbers"]["lhs_contracting_dimensions"]
    left = graph.transpose(left, (*(each for each in range(len(left.shape)) if each != axis), axis))
    how: dict[str, Attribute] = {"K": depth, "N": columns, "bits": bits, "block_size": size}
    how["accuracy_level"] = _INT8 if is_rounding else _FLOAT32
    whole = (*left.shape[:-1], columns)
    made = graph.node("MatMulNBits", [left, *inputs], whole, "f32", **how)
    return [graph.reshape(made, result)]


def _shift_scales(graph: Graph, left: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Divide a left factor by `_SHIFT`, and multiply the scales of the right one with it."""
    left = graph.each("Mul", left, graph.like(1 / _SHIFT, left))
    return left, graph.each("Mul", scale, graph.like(_SHIFT, scale))


def _flat(rule: Rule, place: int) -> Tensor:
    """Quantized numbers, or what is repeated for them: contracted axes, then one for all columns.

    OpenVINO takes no others.
    """
    graph, tensor = rule.graph, rule.operands[place]
    blocks, free, summed = (
        rule.operation.attributes[each] for each in ("blocks", "free", "summed")
    )
    if place == 1:
        tensor = graph.reshape(rule.whole(place), blocks)
    shape = (1,) * (len(blocks) - len(tensor.shape)) + tensor.shape
    tensor = graph.transpose(graph.reshape(tensor, shape), (*summed, *free))
    depth = tensor.shape[: len(summed)]
    if prod(tensor.shape[len(summed) :]) != 1:
        tensor = graph.full(tensor, (*depth, *(blocks[axis] for axis in free)))
    return graph.reshape(tensor, (*depth, prod(tensor.shape[len(summed) :])))


def _whole_zeros(rule: Rule) -> list[Tensor | None]:
    """Return the zero points of both factors; None for one without."""
    given = iter(rule.operands[2:])
    return [next(given) if has else None for has in rule.operation.attributes["zeros"]]


def _whole_dot_general(rule: Rule) -> list[Tensor]:
    """Multiply small integers and add in 32 bits, as MatMulInteger does.

    The left factor is unsigned: of others ONNX Runtime has slow code. So is the right one where
    sums may saturate (`session.x64quantprecision` keeps ONNX Runtime from it only in part).
    """
    graph, zeros = rule.graph, _whole_zeros(rule)
    left, right = rule.whole(0), rule.whole(1)
    if not graph.names.kernels.operators:
        return [_exact_product(rule)]
    if any(each is not None and prod(each.shape) != 1 for each in zeros):
        return [product(rule, *_less_zeros(rule, "i32"))]
    left, left_zero = _to_unsigned(graph, left, zeros[0])
    right_zero = zeros[1]
    if not graph.names.kernels.signed:
        right, right_zero = _to_unsigned(graph, right, right_zero)
    left, right = arrange_factors(rule, left, right)
    if 0 in left.shape:
        return [graph.constant(0, "i32")]
    inputs = [left, right, graph.reshape(left_zero, ())]
    if right_zero is not None:
        inputs.append(_shift(graph, graph.reshape(right_zero, ()), right.element, 0))
    made = graph.node("MatMulInteger", inputs, (*left.shape[:-1], right.shape[-1]), "i32")
    return [graph.reshape(made, rule.operation.result.shape)]


def _to_unsigned(graph: Graph, tensor: Tensor, zero: Tensor | None) -> tuple[Tensor, Tensor]:
    """Small integers as unsigned ones, and their zero point."""
    zero = graph.constant(0, "i32") if zero is None else zero
    if tensor.element == "ui8":
        return tensor, _shift(graph, zero, "ui8", 0)
    known = graph.names.unsigned.get(tensor.name)
    known = known or _shift(graph, tensor, "ui8", _MIDDLE)
    return known, _shift(graph, zero, "ui8", _MIDDLE)


def _less_zeros(rule: Rule, element: str) -> tuple[Tensor, ...]:
    """Both factors less their zero points, as numbers of another type."""
    graph, made = rule.graph, []
    for place, zero in enumerate(_whole_zeros(rule)):
        wide = graph.cast(rule.whole(place), element)
        if zero is not None:
            wide = graph.each("Sub", wide, graph.cast(zero, element))
        made.append(graph.full(wide, rule.operation.operands[place].shape))
    return tuple(made)


def _terms_max(rule: Rule) -> int:
    """Return the most products of both factors whose sum float32 has exactly."""
    pairs = zip(rule.operation.attributes["zeros"], rule.operation.operands[:2], strict=True)
    sizes = [255 if has or value.element == "ui8" else _MIDDLE for has, value in pairs]
    return _EXACT // prod(sizes)


def _exact_product(rule: Rule) -> Tensor:
    """Multiply in float32, and add in 32 bits what float32 does not add exactly."""
    graph, most = rule.graph, _terms_max(rule)
    left, right = arrange_factors(rule, *_less_zeros(rule, "f32"))
    depth, shape = left.shape[-1], (*left.shape[:-1], right.shape[-1])
    total = graph.constant(0, "i32")
    for start in range(0, depth, most):
        end = min(start + most, depth)
        one = graph.part(left, len(left.shape) - 1, start, end)
        other = graph.part(right, len(right.shape) - 2, start, end)
        made = graph.node("Mul" if end - start == 1 else "MatMul", [one, other], shape, "f32")
        made = graph.cast(made, "i32")
        total = graph.each("Add", total, made) if start else made
    return graph.reshape(total, rule.operation.result.shape) if depth else total


def _whole_convolution(rule: Rule) -> list[Tensor]:
    """Convolve in float32. Raises UnsupportedError where float32 does not add exactly."""
    image, kernel = _less_zeros(rule, "f32")
    numbers = rule.operation.attributes["dimension_numbers"]
    outputs = kernel.shape[numbers["kernel_output_feature_dimension"]]
    terms = prod(kernel.shape) // max(outputs, 1)
    if terms > _terms_max(rule):
        raise UnsupportedError(f"stablehlo.convolution of {terms} integers for each result")
    return [rule.graph.cast(convolve(rule, image, kernel), "i32")]


RULES: Rules = {
    graph_quantized.DEQUANTIZE: _dequantize,
    graph_quantized.QUANTIZE: _quantize,
    graph_quantized.UNPACK: _unpack,
    graph_quantized.WEIGHTED: _weighted_product,
    graph_quantized.WHOLE["stablehlo.convolution"]: _whole_convolution,
    graph_quantized.WHOLE["stablehlo.dot_general"]: _whole_dot_general,
}
