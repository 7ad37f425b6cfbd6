"""Products of matrices, and convolutions."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from aotc.compile.mlir import long_sums
from aotc.engines.onnx_graphs.graph_builder import Tensor
from aotc.engines.onnx_graphs.graph_elementwise import FLOATS, compare_by
from aotc.engines.onnx_graphs.graph_layout import pad_array, reverse
from aotc.engines.onnx_graphs.graph_reductions import sum_axes
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules
from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError

_MULTIPLIED = {
    **dict.fromkeys(("f16", "bf16"), "f32"),
    **dict.fromkeys(("i1", "i8", "i16"), "i32"),
    **dict.fromkeys(("ui8", "ui16"), "ui32"),
}
"""By the element of a product, what is computed with."""

_TERMS_MAX = 4096
"""Most products that are added one after the other, where a group has one channel of results."""


def arrange_factors(rule: Rule, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of a `dot_general` as [batch, free, contracted] and [batch, contracted, free]."""
    graph, numbers = rule.graph, rule.operation.attributes["dot_dimension_numbers"]
    left_batch, right_batch = (numbers[f"{side}_batching_dimensions"] for side in ("lhs", "rhs"))
    left_sum, right_sum = (numbers[f"{side}_contracting_dimensions"] for side in ("lhs", "rhs"))
    left_free = _others(left, left_batch, left_sum)
    right_free = _others(right, right_batch, right_sum)
    depth = prod(left.shape[axis] for axis in left_sum)
    batch = [left.shape[axis] for axis in left_batch]
    rows = [left.shape[axis] for axis in left_free]
    columns = [right.shape[axis] for axis in right_free]
    left = graph.transpose(left, (*left_batch, *left_free, *left_sum))
    right = graph.transpose(right, (*right_batch, *right_sum, *right_free))
    # Without batches, MatMul takes any number of rows' axes as they are.
    inner_rows = rows if not batch and rows else [prod(rows)]
    left = graph.reshape(left, (*batch, *inner_rows, depth))
    return left, graph.reshape(right, (*batch, depth, prod(columns)))


def product(rule: Rule, left: Tensor, right: Tensor) -> Tensor:
    """Return the product of a `dot_general` of any numbers."""
    graph, result = rule.graph, rule.operation.result
    wide = _MULTIPLIED.get(result.element, result.element)
    left, right = (graph.cast(each, wide) for each in (left, right))
    left, right = arrange_factors(rule, left, right)
    shape, depth = (*left.shape[:-1], right.shape[-1]), left.shape[-1]
    if depth == 0:
        return graph.constant(0, result.element)
    batch = len(right.shape) - 2
    if prod(shape[batch:]) == 1 and depth > long_sums.TERMS_MAX and wide in FLOATS:
        flat = (*shape[:batch], depth)
        terms = graph.each("Mul", *(graph.reshape(each, flat) for each in (left, right)))
        made = sum_axes(graph, terms, (batch,))
        return graph.cast(graph.reshape(made, result.shape), result.element)
    # OpenVINO's compiler ends in a crash where one of a product's numbers is known beforehand.
    made = graph.node("Mul" if depth == 1 else "MatMul", [left, right], shape, wide)
    made = graph.reshape(made, result.shape)
    if result.element == "i1":
        return compare_by(graph, "NE", made, graph.like(0, made))
    return graph.cast(made, result.element)


def _others(tensor: Tensor, *taken: Sequence[int]) -> list[int]:
    used = {axis for axes in taken for axis in axes}
    return [axis for axis in range(len(tensor.shape)) if axis not in used]


def _convolution(rule: Rule) -> list[Tensor]:
    graph, result = rule.graph, rule.operation.result
    if result.element not in FLOATS:
        raise UnsupportedError("stablehlo.convolution of integers")
    element = result.element if result.element == "f64" else "f32"
    image, kernel = (graph.cast(rule.whole(index), element) for index in (0, 1))
    return [graph.cast(convolve(rule, image, kernel), result.element)]


def convolve(rule: Rule, image: Tensor, kernel: Tensor) -> Tensor:
    """Conv with channels first, which ONNX Runtime takes apart again where it can.

    Raises UnsupportedError.
    """
    graph, result, attributes = rule.graph, rule.operation.result, rule.operation.attributes
    numbers, element = attributes["dimension_numbers"], image.element
    if attributes.get("batch_group_count", 1) != 1:
        raise UnsupportedError("stablehlo.convolution with groups of the batch")
    spatial = len(numbers["input_spatial_dimensions"])
    if not 1 <= spatial <= 3:
        raise UnsupportedError(f"stablehlo.convolution over {spatial} axes")
    ones = (1,) * spatial
    image = graph.transpose(image, _layout(numbers, "input", "batch", "feature"))
    kernel = graph.transpose(kernel, _layout(numbers, "kernel", "output_feature", "input_feature"))
    turned = rule.operation.attributes.get("window_reversal", ())
    kernel = reverse(
        graph, kernel, tuple(2 + axis for axis in range(spatial) if any(turned) and turned[axis])
    )
    low, high = ([edge[side] for edge in rule.edges(spatial)] for side in (0, 1))
    between = tuple(each - 1 for each in rule.numbers("lhs_dilation", ones))
    if any(between) or min(*low, *high, 0) < 0:
        image = pad_array(
            graph,
            image,
            graph.like(0, image),
            (0, 0, *(min(0, each) for each in low)),
            (0, 0, *(min(0, each) for each in high)),
            (0, 0, *between),
        )
        low, high = ([max(0, each) for each in ends] for ends in (low, high))
    output = _layout(numbers, "output", "batch", "feature")
    shape = [result.shape[axis] for axis in output]
    if 0 in (*shape, *image.shape, *kernel.shape):
        return graph.constant(0, element)
    groups, terms = attributes.get("feature_group_count", 1), prod(kernel.shape[1:])
    if kernel.shape[0] == groups and terms > _TERMS_MAX:
        raise UnsupportedError(f"stablehlo.convolution of {terms} numbers for each result")
    made = graph.node(
        "Conv",
        [image, kernel],
        shape,
        element,
        kernel_shape=kernel.shape[2:],
        strides=rule.numbers("window_strides", ones),
        pads=(*low, *high),
        dilations=rule.numbers("rhs_dilation", ones),
        group=groups,
    )
    back = sorted(range(len(output)), key=lambda axis: output[axis])
    return graph.transpose(made, back)


def _layout(numbers: Mapping[str, Any], array: str, *names: str) -> tuple[int, ...]:
    """Return the places of an array's named axes, and then of those of space."""
    named = (numbers[f"{array}_{name}_dimension"] for name in names)
    return *named, *numbers[f"{array}_spatial_dimensions"]


RULES: Rules = {
    "stablehlo.convolution": _convolution,
    "stablehlo.dot_general": lambda rule: [product(rule, rule.whole(0), rule.whole(1))],
}
