"""Sums, extremes and other reductions along axes and over windows."""

from collections.abc import Sequence
from math import inf, prod

import numpy as np

from aotc.compile.mlir import long_sums
from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs.graph_builder import Attribute, Graph, Tensor
from aotc.engines.onnx_graphs.graph_elementwise import (
    COMBINED,
    FLOATS,
    computes_as_floats,
    to_computed,
)
from aotc.engines.onnx_graphs.graph_layout import pad_array
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules
from aotc.engines.onnx_graphs.stablehlo_program import Block, UnsupportedError

_POSITIONS_MAX = 128
"""Places of a window that are taken one after the other."""


def body_of(block: Block) -> str:
    """Return the only operation of a function of two numbers, or "": "stablehlo.add"."""
    if len(block.operations) != 1 or len(block.arguments) != 2:
        return ""
    (only,) = block.operations
    same = set(map(id, only.operands)) == set(map(id, block.arguments))
    commutes = only.name in COMBINED
    return only.name if same and commutes and block.returned == only.results else ""


_REDUCED = {
    "stablehlo.add": "ReduceSum",
    "stablehlo.maximum": "ReduceMax",
    "stablehlo.minimum": "ReduceMin",
    "stablehlo.multiply": "ReduceProd",
}
_BOOLEANS = {
    **dict.fromkeys(("stablehlo.add", "stablehlo.or", "stablehlo.maximum"), "ReduceMax"),
    **dict.fromkeys(("stablehlo.and", "stablehlo.minimum", "stablehlo.multiply"), "ReduceMin"),
}
_WIDE = {
    **dict.fromkeys(("f16", "bf16"), "f32"),
    **dict.fromkeys(("i8", "i16", "ui8", "ui16"), "i32"),
    "i1": "ui8",
    "ui32": "i64",
}


def neutral(name: str, element: str) -> object:
    """Return the number that changes nothing; None where there is none."""
    if name == "stablehlo.add" or name in ("stablehlo.or", "stablehlo.xor"):
        return 0
    if name == "stablehlo.multiply":
        return 1
    if element == "i1":
        return name in ("stablehlo.and", "stablehlo.minimum")
    if element in FLOATS:
        return {"stablehlo.maximum": -inf, "stablehlo.minimum": inf}.get(name)
    limits = np.iinfo(DTYPES[element])
    known = {"stablehlo.maximum": limits.min, "stablehlo.minimum": limits.max}
    known["stablehlo.and"] = limits.max if element.startswith("u") else -1
    return known[name]


def _is_neutral(name: str, start: Tensor) -> bool:
    number = start.number
    return number is not None and bool(number == neutral(name, start.element))


def _reduce(rule: Rule) -> list[Tensor]:
    axes = rule.numbers("dimensions")
    name = body_of(rule.operation.blocks[0])
    simple = len(rule.operands) == 2 and (
        name in _REDUCED or (name in _BOOLEANS and rule.operands[0].element == "i1")
    )
    element = rule.operands[0].element
    # ONNX Runtime adds and multiplies integers as floats: sums of 32 bits are exact in 64.
    inexact = name == "stablehlo.multiply" and element not in (*FLOATS, "i1")
    inexact |= name == "stablehlo.add" and element == "i64"
    inexact |= computes_as_floats(rule.graph, element)
    if simple and rule.operation.operands[0].size and element != "ui64" and not inexact:
        graph, start = rule.graph, rule.operands[1]
        made = reduce_to(graph, name, rule.whole(0), axes, rule.operation.result.shape)
        return [made if _is_neutral(name, start) else COMBINED[name](graph, made, start)]
    return _tree(rule, axes)


def reduce_to(
    graph: Graph, name: str, value: Tensor, axes: Sequence[int], shape: Sequence[int]
) -> Tensor:
    """Return one of ONNX's reductions; `shape` is the result's, without the axes."""
    if not axes:
        return value
    element = value.element
    operator = _BOOLEANS[name] if element == "i1" else _REDUCED[name]
    wide = graph.cast(value, _WIDE.get(element, element))
    if operator == "ReduceSum":
        return graph.cast(sum_axes(graph, wide, axes), element)
    inputs = [wide, graph.ints(*axes)]
    made = graph.node(operator, inputs, shape, wide.element, keepdims=0)
    if element in FLOATS and operator in ("ReduceMax", "ReduceMin"):
        # They pass over what is no number where they take several at once.
        inputs = [graph.is_nan(wide), graph.ints(*axes)]
        none = graph.node("ReduceMax", inputs, shape, "i1", keepdims=0)
        made = graph.where(none, graph.like(float("nan"), made), made)
    return graph.cast(made, element)


def sum_axes(graph: Graph, value: Tensor, axes: Sequence[int]) -> Tensor:
    """Sum over axes: of floats in several steps where they are long, of integers exactly."""
    if value.element not in FLOATS:
        wide = graph.cast(value, "i64")
        return _sum_along(graph, wide, axes)
    for step in long_sums.plan(value.shape, axes):
        value = graph.reshape(value, step.shape)
        behind = [after - size for size, after in zip(step.shape, step.padded, strict=True)]
        value = graph.pad(value, [0] * len(step.shape), behind, graph.like(0, value))
        value = _sum_along(graph, graph.reshape(value, step.cut), step.axes)
    return value


def _sum_along(graph: Graph, value: Tensor, axes: Sequence[int]) -> Tensor:
    shape = [size for axis, size in enumerate(value.shape) if axis not in axes]
    inputs = [value, graph.ints(*axes)]
    return graph.node("ReduceSum", inputs, shape, value.element, keepdims=0)


def _tree(rule: Rule, axes: tuple[int, ...]) -> list[Tensor]:
    """Any function, on neighbours until one number is left along the axes."""
    graph, operation = rule.graph, rule.operation
    count = len(operation.results)
    shape = operation.operands[0].shape
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    length = prod(shape[axis] for axis in axes)
    out = operation.results[0].shape
    starts = list(rule.operands[count:])
    if not length:
        return starts
    values = [
        graph.reshape(graph.transpose(rule.whole(index), (*axes, *kept)), (length, *out))
        for index in range(count)
    ]
    while length > 1:
        half, odd = divmod(length, 2)
        # Neighbours, so that the order stays: the function need not commute.
        low, high = (
            [
                graph.slice(each, [start, *[0] * len(out)], [2 * half, *out], [2, *[1] * len(out)])
                for each in values
            ]
            for start in (0, 1)
        )
        rest = [graph.part(each, 0, 2 * half, length) for each in values]
        made = rule.evaluate(graph, operation.blocks[0], [*low, *high])
        values = [
            graph.concat([graph.full(each, (half, *out)), more], 0)
            if odd
            else graph.full(each, (half, *out))
            for each, more in zip(made, rest, strict=True)
        ]
        length = half + odd
    values = [graph.reshape(each, out) for each in values]
    return rule.evaluate(graph, operation.blocks[0], [*starts, *values])


def _reduce_window(rule: Rule) -> list[Tensor]:
    operation = rule.operation
    if len(operation.results) != 1:
        raise UnsupportedError("stablehlo.reduce_window of several arrays")
    name = body_of(operation.blocks[0])
    start, rank = rule.operands[1], len(operation.result.shape)
    ones = (1,) * rank
    window = rule.numbers("window_dimensions")
    strides = rule.numbers("window_strides", ones)
    between = rule.numbers("window_dilations", ones)
    edges = rule.edges(rank)
    graph, value = rule.graph, rule.whole(0)
    inside = tuple(each - 1 for each in rule.numbers("base_dilations", ones))
    running = _running(name, value, window, edges)
    if running and strides == between == ones and not any(inside) and _is_neutral(name, start):
        axis, forward = running
        return [accumulate(graph, name, value, axis, forward=forward)]
    pooled = [axis for axis in range(rank) if (window[axis], strides[axis]) != (1, 1)]
    low, high = (tuple(edge[side] for edge in edges) for side in (0, 1))
    padded_value = pad_array(graph, value, start, low, high, inside)
    if (
        name in ("stablehlo.maximum", "stablehlo.add")
        and value.element in ("f16", "bf16", "f32")
        and _is_neutral(name, start)
        and 1 <= len(pooled) <= 3
        and operation.result.size
    ):
        return [_pool(rule, name, padded_value, pooled, window, strides, between)]
    return [_positions(rule, padded_value, window, strides, between)]


def _pool(
    rule: Rule,
    name: str,
    value: Tensor,
    pooled: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    between: Sequence[int],
) -> Tensor:
    """MaxPool or AveragePool of what is padded already."""
    graph, result = rule.graph, rule.operation.result
    others = [axis for axis in range(len(result.shape)) if axis not in pooled]
    order = [*others, *pooled]
    value = graph.transpose(to_computed(graph, value), order)
    outer = [value.shape[axis] for axis in range(len(others))]
    inner, made_inner = value.shape[len(others) :], [result.shape[axis] for axis in pooled]
    channels = outer if len(outer) == 2 else [1, prod(outer)]
    value = graph.reshape(value, (*channels, *inner))
    cut: dict[str, Attribute] = {
        "kernel_shape": tuple(window[axis] for axis in pooled),
        "strides": tuple(strides[axis] for axis in pooled),
        "dilations": tuple(between[axis] for axis in pooled),
    }
    shape = (*channels, *made_inner)
    if name == "stablehlo.maximum":
        made = _max_pool(graph, value, shape, cut)
    elif prod(window) <= long_sums.TERMS_MAX:
        mean = graph.node("AveragePool", [value], shape, "f32", count_include_pad=1, **cut)
        made = graph.each("Mul", mean, graph.like(prod(window), mean))
    else:
        raise UnsupportedError(f"stablehlo.reduce_window of sums of {prod(window)} numbers")
    made = graph.reshape(made, (*outer, *made_inner))
    back = sorted(range(len(order)), key=lambda axis: order[axis])
    return graph.cast(graph.transpose(made, back), result.element)


def _max_pool(
    graph: Graph, value: Tensor, shape: Sequence[int], cut: dict[str, Attribute]
) -> Tensor:
    """MaxPool, which passes over what is no number; where there is any, that is put back."""
    axes = graph.ints(*range(len(value.shape)))
    found = graph.node("ReduceMax", [graph.is_nan(value), axes], (), "i1", keepdims=0)
    usual, odd = Graph(graph), Graph(graph)
    usual.output(usual.node("MaxPool", [value], shape, "f32", **cut), shape)
    made = odd.node("MaxPool", [value], shape, "f32", **cut)
    none = odd.node("MaxPool", [odd.cast(odd.is_nan(value), "f32")], shape, "f32", **cut)
    is_none = odd.each("Greater", none, odd.like(0, none), element="i1")
    odd.output(odd.where(is_none, odd.like(float("nan"), made), made), shape)
    return graph.node("If", [found], shape, "f32", then_branch=odd, else_branch=usual)


def _positions(
    rule: Rule, value: Tensor, window: Sequence[int], strides: Sequence[int], between: Sequence[int]
) -> Tensor:
    """Any function of two numbers, over the places of the window one after the other."""
    graph, result = rule.graph, rule.operation.result
    if prod(window) > _POSITIONS_MAX:
        raise UnsupportedError(f"stablehlo.reduce_window of {prod(window)} numbers")
    made = rule.operands[1]
    for place in np.ndindex(*window):
        starts = [at * apart for at, apart in zip(place, between, strict=True)]
        ends = [
            start + (size - 1) * step + 1
            for start, size, step in zip(starts, result.shape, strides, strict=True)
        ]
        part = graph.slice(value, starts, ends, list(strides))
        (made,) = rule.evaluate(graph, rule.operation.blocks[0], [made, part])
    return made


def _running(
    name: str, value: Tensor, window: Sequence[int], edges: Sequence[tuple[int, int]]
) -> tuple[int, bool] | None:
    """Return the axis, and whether forward, if the window is all before or all behind a number."""
    axes = [axis for axis, size in enumerate(window) if size != 1]
    if len(axes) != 1 or name not in COMBINED:
        return None
    (axis,) = axes
    size = value.shape[axis]
    if any(edge != (0, 0) for at, edge in enumerate(edges) if at != axis) or window[axis] != size:
        return None
    directions = {(size - 1, 0): True, (0, size - 1): False}
    return (axis, directions[edges[axis]]) if edges[axis] in directions else None


def accumulate(graph: Graph, name: str, value: Tensor, axis: int, *, forward: bool) -> Tensor:
    """Return each number combined with all before it, or behind it: in steps that double."""
    wide = {"i32": "i32", "i64": "i64", "f32": "f32", "f64": "f64", "f16": "f32", "bf16": "f32"}
    if name == "stablehlo.add" and value.element in wide:
        made = _running_sum(graph, graph.cast(value, wide[value.element]), axis, not forward, False)
        return graph.cast(made, value.element)
    size, distance = value.shape[axis], 1
    filler = graph.constant(neutral(name, value.element), value.element)
    while distance < size:
        low, high = [0] * len(value.shape), [0] * len(value.shape)
        if forward:
            low[axis], kept = distance, graph.part(value, axis, 0, size - distance)
        else:
            high[axis], kept = distance, graph.part(value, axis, distance, size)
        moved = graph.pad(kept, low, high, filler)
        value = COMBINED[name](graph, value, moved)
        distance *= 2
    return value


def _running_sum(graph: Graph, value: Tensor, axis: int, reverse: bool, exclusive: bool) -> Tensor:
    """CumSum; of many floats within blocks, each of which begins with the sum of those before."""
    size, shape = value.shape[axis], value.shape
    if size <= long_sums.TERMS_MAX or value.element not in FLOATS:
        inputs = [value, graph.constant(axis, "i64")]
        how = {"reverse": int(reverse), "exclusive": int(exclusive)}
        return graph.node("CumSum", inputs, shape, value.element, **how)
    count, block = long_sums.blocks(size)
    behind = [0] * len(shape)
    behind[axis] = count * block - size
    whole = graph.pad(value, [0] * len(shape), behind, graph.like(0, value))
    cut = graph.reshape(whole, (*shape[:axis], count, block, *shape[axis + 1 :]))
    totals = _sum_along(graph, cut, (axis + 1,))
    before = _running_sum(graph, totals, axis, reverse, True)
    before = graph.reshape(before, (*shape[:axis], count, 1, *shape[axis + 1 :]))
    made = graph.each("Add", before, _running_sum(graph, cut, axis + 1, reverse, exclusive))
    return graph.part(graph.reshape(made, whole.shape), axis, 0, size)


RULES: Rules = {"stablehlo.reduce": _reduce, "stablehlo.reduce_window": _reduce_window}
