"""Operations of `graph_quantized` as operators of ONNX, or as the arithmetic that they are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from aotc.engines.onnx_graphs import graph_quantized
from aotc.engines.onnx_graphs.graph_builder import Graph, Tensor
from aotc.engines.onnx_graphs.graph_elementwise import extreme
from aotc.engines.onnx_graphs.graph_products import arranged, convolved, product
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules
from aotc.engines.onnx_graphs.stablehlo_program import DTYPES, NARROW, UnsupportedError

_MIDDLE = 128
"""The difference between a number of int8 and the one of uint8 in its place."""

_EXACT = 2**24
"""Sums up to which float32 adds integers exactly, in any order."""

_FLOAT32 = 1
"""MatMulNBits's number of a precision in which it multiplies."""

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
        offset = _shifted(graph, graph.reshape(zero, ()), element, shift)
        made = graph.node("QuantizeLinear", [value, by, offset], value.shape, element)
        if low > limits.min:
            made = extreme(graph, "Max", "", made, graph.like(low + shift, made))
        if high < limits.max:
            made = extreme(graph, "Min", "", made, graph.like(high + shift, made))
        return made if none is None else graph.where(none, graph.like(shift, made), made)

    made = rounded(element, 0)
    if element == "i8":
        graph.names.unsigned[made.name] = rounded("ui8", _MIDDLE)
    return [made]


def _shifted(graph: Graph, tensor: Tensor, element: str, shift: int) -> Tensor:
    """Whole numbers, with a number added, as a small integer type that holds the sums."""
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
    axes = [axis for axis, size in enumerate(scale.shape) if size != 1]
    if (
        not graph.names.kernels.operators
        or not is_usable
        or operation.operands[0].element in NARROW
        or len(axes) > 1
        or any(prod(each.shape) not in (1, prod(scale.shape)) for each in zeros)
    ):
        return [_widened(graph, numbers, scale, zeros)]
    row = (scale.shape[axes[0]],) if axes else ()
    where = {"axis": axes[0] - len(scale.shape) + len(numbers.shape)} if axes else {}
    zero = zeros[0] if zeros else graph.constant(0, "i32")
    is_weight = is_fixed and paired != "stablehlo.add"
    if paired and not (is_weight and graph.names.kernels.signed):
        numbers, zero = _unsigned(graph, numbers, zero)
    offset = graph.full(_shifted(graph, zero, numbers.element, 0), row)
    inputs = [numbers, graph.reshape(scale, row), offset]
    return [graph.node("DequantizeLinear", inputs, numbers.shape, "f32", **where)]


def _widened(
    graph: Graph, numbers: Tensor, scale: Tensor | None, zeros: Sequence[Tensor]
) -> Tensor:
    """Small integers less their zero points, times a scale."""
    wide = graph.cast(numbers, "f32")
    for zero in zeros:
        wide = graph.each("Sub", wide, graph.cast(zero, "f32"))
    return wide if scale is None else graph.each("Mul", wide, scale)


def _weighted(rule: Rule) -> list[Tensor]:
    """Multiply by quantized weights, of 4 bits as they are: that is as exact as float32."""
    graph, left, packed = rule.graph, rule.whole(0), _packed(rule)
    result = rule.operation.result.shape
    if packed is None:
        numbers, *others = (_flat(rule, each) for each in range(1, len(rule.operands)))
        right = _widened(graph, numbers, next(iter(others), None), others[1:])
        right = graph.full(right, numbers.shape)
        right = graph.reshape(right, (prod(right.shape[:-1]), right.shape[-1]))
        return [graph.reshape(product(rule, left, right), result)]
    (axis,) = _contracted(rule)
    free = [each for each in range(len(left.shape)) if each != axis]
    left = graph.transpose(left, (*free, axis))
    columns, blocks, size = packed.shape
    made = graph.node(
        "MatMulNBits",
        [left, *packed.inputs],
        (*left.shape[:-1], columns),
        "f32",
        K=blocks * size,
        N=columns,
        bits=4,
        block_size=size,
        accuracy_level=_FLOAT32,
    )
    return [graph.reshape(made, result)]


def _contracted(rule: Rule) -> Sequence[int]:
    axes: Sequence[int] = rule.operation.attributes["dot_dimension_numbers"][
        "lhs_contracting_dimensions"
    ]
    return axes


def _turned(rule: Rule, tensor: Tensor) -> Tensor:
    """Quantized numbers, or what is repeated for them, with the contracted axes first."""
    blocks, free, summed = (
        rule.operation.attributes[name] for name in ("blocks", "free", "summed")
    )
    if prod(tensor.shape) == prod(blocks):
        tensor = rule.graph.reshape(tensor, blocks)
    shape = (1,) * (len(blocks) - len(tensor.shape)) + tensor.shape
    return rule.graph.transpose(rule.graph.reshape(tensor, shape), (*summed, *free))


def _flat(rule: Rule, place: int) -> Tensor:
    """An operand as `_turned`, with one axis for all columns: OpenVINO takes no others."""
    deep, tensor = len(rule.operation.attributes["summed"]), _turned(rule, rule.operands[place])
    columns = _turned(rule, rule.whole(1)).shape[deep:]
    if prod(tensor.shape[deep:]) != 1:
        tensor = rule.graph.full(tensor, (*tensor.shape[:deep], *columns))
    return rule.graph.reshape(tensor, (*tensor.shape[:deep], prod(tensor.shape[deep:])))


class _Packed(NamedTuple):
    """Weights of MatMulNBits. shape: columns, blocks of a column, and numbers of a block."""

    inputs: list[Tensor]
    shape: tuple[int, int, int]


def _packed(rule: Rule) -> _Packed | None:
    """Return weights of 4 bits as MatMulNBits takes them; None where they stay as they are.

    Of 8 bits, it is slow unless it rounds the other factor to 8 bits, which no tolerance allows
    that holds for small and for large numbers.
    """
    graph, deep = rule.graph, len(rule.operation.attributes["summed"])
    element, name = rule.operation.operands[1].element, rule.operands[1].name
    numbers = _turned(rule, rule.whole(1))
    if not graph.names.kernels.operators or element not in NARROW or len(rule.operands) > 3:
        return None
    if name not in graph.names.fixed or 0 in numbers.shape:
        return None
    depth, within = prod(numbers.shape[:deep]), numbers.shape[deep - 1]
    size = next((each for each in _BLOCKS if within % each == 0), 0)
    scale = graph.constant(1, "f32") if len(rule.operands) < 3 else rule.operands[2]
    scale = _turned(rule, scale)
    if not size or scale.shape[deep - 1] != 1:
        return None
    columns, few, blocks = prod(numbers.shape[deep:]), depth // within, depth // size

    def by_column(each: Tensor, *inner: int) -> Tensor:
        """Put the contracted axes last."""
        axes = range(len(each.shape))
        return graph.reshape(graph.transpose(each, (*axes[deep:], *axes[:deep])), (columns, *inner))

    # One scale for each block of each column.
    scale = graph.full(scale, (*numbers.shape[: deep - 1], 1, *numbers.shape[deep:]))
    scale = graph.full(by_column(scale, few, 1), (columns, few, blocks // few))
    middle = 0 if element.startswith("u") else 8
    pairs = _shifted(graph, by_column(numbers, depth // 2, 2), "i32", middle)
    even, odd = (graph.part(pairs, 2, place, place + 1) for place in (0, 1))
    bytes_ = graph.each("Add", even, graph.each("Mul", odd, graph.like(16, odd)))
    weights = graph.reshape(graph.cast(bytes_, "ui8"), (columns, blocks, size // 2))
    inputs = [weights, graph.reshape(scale, (columns, blocks))]
    if not middle:
        inputs.append(graph.constant(np.zeros((columns, -(-blocks // 2))), "ui8"))
    return _Packed(inputs, (columns, blocks, size))


def _whole_zeros(rule: Rule) -> list[Tensor | None]:
    """The zero points of both factors; None for one without."""
    given = iter(rule.operands[2:])
    return [next(given) if has else None for has in rule.operation.attributes["zeros"]]


def _whole_dot_general(rule: Rule) -> list[Tensor]:
    """Multiply small integers and add in 32 bits, as MatMulInteger does.

    The left factor is unsigned: of others ONNX Runtime has slow code. So is the right one where
    sums may saturate (`session.x64quantprecision` keeps ONNX Runtime from it only in part).
    """
    graph, (left_zero, right_zero) = rule.graph, _whole_zeros(rule)
    left, right = rule.whole(0), rule.whole(1)
    if not graph.names.kernels.operators:
        return [_exact_product(rule)]
    if left_zero is not None and prod(left_zero.shape) != 1:
        return [_wide_product(rule)]
    right_row = _row(rule, right_zero, right)
    if right_zero is not None and right_row is None:
        return [_wide_product(rule)]
    left, left_zero = _unsigned(graph, left, left_zero)
    if not graph.names.kernels.signed:
        right, right_row = _unsigned(graph, right, right_row)
    factors = arranged(rule, left, right)
    if not factors.depth:
        return [graph.constant(0, "i32")]
    inputs = [factors.left, factors.right, graph.reshape(left_zero, ())]
    if right_row is not None:
        inputs.append(_shifted(graph, right_row, right.element, 0))
    made = graph.node("MatMulInteger", inputs, factors.shape, "i32")
    return [graph.reshape(made, factors.result)]


def _row(rule: Rule, zero: Tensor | None, right: Tensor) -> Tensor | None:
    """The zero point of a right factor as a number, or one for each column; None without one."""
    if zero is None or prod(zero.shape) == 1:
        return zero if zero is None else rule.graph.reshape(zero, ())
    numbers = rule.operation.attributes["dot_dimension_numbers"]
    shape = (1,) * (len(right.shape) - len(zero.shape)) + zero.shape
    summed = numbers["rhs_contracting_dimensions"]
    if numbers["rhs_batching_dimensions"] or any(shape[axis] != 1 for axis in summed):
        return None
    free = [1 if axis in summed else size for axis, size in enumerate(right.shape)]
    return rule.graph.reshape(rule.graph.full(zero, free), (prod(free),))


def _unsigned(graph: Graph, tensor: Tensor, zero: Tensor | None) -> tuple[Tensor, Tensor]:
    """Small integers as unsigned ones, and their zero point."""
    zero = graph.constant(0, "i32") if zero is None else zero
    if tensor.element == "ui8":
        return tensor, _shifted(graph, zero, "ui8", 0)
    known = graph.names.unsigned.get(tensor.name)
    known = known or _shifted(graph, tensor, "ui8", _MIDDLE)
    return known, _shifted(graph, zero, "ui8", _MIDDLE)


def _less_zeros(rule: Rule, element: str) -> tuple[Tensor, ...]:
    """Both factors less their zero points, as numbers of another type."""
    graph, made = rule.graph, []
    for place, zero in enumerate(_whole_zeros(rule)):
        wide = graph.cast(rule.whole(place), element)
        if zero is not None:
            wide = graph.each("Sub", wide, graph.cast(zero, element))
        made.append(graph.full(wide, rule.operation.operands[place].shape))
    return tuple(made)


def _wide_product(rule: Rule) -> Tensor:
    return product(rule, *_less_zeros(rule, "i32"))


def _terms_max(rule: Rule) -> int:
    """The most products of both factors whose sum float32 has exactly."""
    sizes = [
        255 if has or value.element == "ui8" else _MIDDLE
        for has, value in zip(
            rule.operation.attributes["zeros"], rule.operation.operands[:2], strict=True
        )
    ]
    return _EXACT // prod(sizes)


def _exact_product(rule: Rule) -> Tensor:
    """Multiply in float32, and add in 32 bits what float32 does not add exactly."""
    graph, most = rule.graph, _terms_max(rule)
    factors = arranged(rule, *_less_zeros(rule, "f32"))
    if not factors.depth:
        return graph.constant(0, "i32")
    total: Tensor | None = None
    for start in range(0, factors.depth, most):
        end = min(start + most, factors.depth)
        left = graph.part(factors.left, len(factors.left.shape) - 1, start, end)
        right = graph.part(factors.right, len(factors.right.shape) - 2, start, end)
        operator = "Mul" if end - start == 1 else "MatMul"
        made = graph.cast(graph.node(operator, [left, right], factors.shape, "f32"), "i32")
        total = made if total is None else graph.each("Add", total, made)
    assert total is not None
    return graph.reshape(total, factors.result)


def _whole_convolution(rule: Rule) -> list[Tensor]:
    """Convolve in float32. Raises UnsupportedError where float32 does not add exactly."""
    image, kernel = _less_zeros(rule, "f32")
    numbers = rule.operation.attributes["dimension_numbers"]
    outputs = kernel.shape[numbers["kernel_output_feature_dimension"]]
    terms = prod(kernel.shape) // max(outputs, 1)
    if terms > _terms_max(rule):
        raise UnsupportedError(f"stablehlo.convolution of {terms} integers for each result")
    return [rule.graph.cast(convolved(rule, image, kernel), "i32")]


RULES: Rules = {
    graph_quantized.DEQUANTIZE: _dequantize,
    graph_quantized.QUANTIZE: _quantize,
    graph_quantized.WEIGHTED: _weighted,
    graph_quantized.WHOLE["stablehlo.convolution"]: _whole_convolution,
    graph_quantized.WHOLE["stablehlo.dot_general"]: _whole_dot_general,
}
