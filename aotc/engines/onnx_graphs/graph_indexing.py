"""Gathers and scatters, by places counted in the flattened array, with StableHLO's bounds."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs import graph_elementwise
from aotc.engines.onnx_graphs.graph_builder import Attribute, Graph, Tensor
from aotc.engines.onnx_graphs.graph_layout import start_within
from aotc.engines.onnx_graphs.graph_reductions import body_of
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules
from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError


def _gather(rule: Rule) -> list[Tensor]:
    """Gather of the places that differ; axes that are taken whole stay as they are."""
    graph, result = rule.graph, rule.operation.result
    value = rule.whole(0)
    numbers = rule.operation.attributes["dimension_numbers"]
    sizes = rule.numbers("slice_sizes")
    if not result.size:
        return [graph.constant(0, result.element)]
    batching = numbers["operand_batching_dims"]
    gone = {*numbers["collapsed_slice_dims"], *batching}
    whole = [
        axis for axis, size in enumerate(value.shape) if sizes[axis] == size and axis not in gone
    ]
    picked = [axis for axis in range(len(sizes)) if axis not in whole]
    # What gathered indices look like: those of the batch, then the places within each window.
    batch = _batch(rule, numbers)
    inner = [axis for axis in picked if axis not in gone]
    rank = len(batch) + len(inner)
    place: Tensor = graph.constant(0, "i64")
    for axis in picked:
        step = prod(value.shape[other] for other in picked if other > axis)
        terms = []
        if axis in numbers["start_index_map"] and value.shape[axis] > sizes[axis]:
            start = _start(rule, numbers["start_index_map"].index(axis), numbers, batch)
            start = start_within(graph, start, value.shape[axis] - sizes[axis])
            terms.append(graph.reshape(start, (*batch, *[1] * len(inner))))
        if axis in batching:
            where = numbers["start_indices_batching_dims"][batching.index(axis)]
            where -= where > numbers["index_vector_dim"]
            terms.append(_count(graph, value.shape[axis], where, rank))
        if axis in inner and sizes[axis] > 1:
            terms.append(_count(graph, sizes[axis], len(batch) + inner.index(axis), rank))
        for term in terms:
            place = _plus(graph, place, term, step)
    shape = [*batch, *(sizes[axis] for axis in inner)]
    place = graph.full(place, shape)
    if len(picked) == 1:
        at_axis = picked[0]
        source = value
    else:
        at_axis = 0
        source = graph.transpose(value, (*picked, *whole))
        source = graph.reshape(
            source, (prod(value.shape[axis] for axis in picked), *(value.shape[a] for a in whole))
        )
    taken = (*source.shape[:at_axis], *shape, *source.shape[at_axis + 1 :])
    made = graph.node("Gather", [source, place], taken, value.element, axis=at_axis)
    # The axes of what was taken, by what they are in the result.
    offset = numbers["offset_dims"]
    windows = [axis for axis in range(len(sizes)) if axis not in gone]
    others = [axis for axis in range(len(result.shape)) if axis not in offset]
    of = {axis: offset[windows.index(axis)] for axis in windows}
    middle = [*others, *(of[axis] for axis in inner)]
    left = [of[axis] for axis in whole if axis < at_axis] if len(picked) == 1 else []
    right = [of[axis] for axis in whole if of[axis] not in left]
    axes = [*left, *middle, *right]
    return [graph.transpose(made, [axes.index(axis) for axis in range(len(axes))])]


def _batch(rule: Rule, numbers: dict[str, Any]) -> list[int]:
    """Return the sizes of the indices, without the axis that holds one for each dimension."""
    at, axis = rule.operation.operands[1], numbers["index_vector_dim"]
    return [size for place, size in enumerate(at.shape) if place != axis]


def _start(rule: Rule, number: int, numbers: dict[str, Any], batch: Sequence[int]) -> Tensor:
    """Return one of the indices that start each window, for the whole batch."""
    graph, at, axis = rule.graph, rule.whole(1), numbers["index_vector_dim"]
    if axis == len(at.shape):
        return at
    return graph.reshape(graph.part(at, axis, number, number + 1), batch)


def _count(graph: Graph, size: int, axis: int, rank: int) -> Tensor:
    """0, 1, 2 … along an axis of so many."""
    return graph.constant(np.arange(size).reshape(-1, *[1] * (rank - axis - 1)), "i64")


def _plus(graph: Graph, place: Tensor, term: Tensor, step: int) -> Tensor:
    if step != 1:
        number = graph.constant(step, "i64")
        if term.constant is not None:
            term = graph.constant(term.constant * step, "i64")
        else:
            term = graph.each("Mul", term, number)
    if place.number == 0:
        return term
    if place.constant is not None and term.constant is not None:
        return graph.constant(place.constant + term.constant, "i64")
    return graph.each("Add", place, term)


_REDUCTIONS = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "mul",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
}
_NANS = {"max": np.nan, "min": np.copysign(np.nan, -1)}
"""By the reduction, the NaN that is last in the order of a float's bits."""
_SCATTERED = {"bf16": "f32", "f16": "f32", "i1": "ui8", "i16": "i32", "ui16": "i32", "ui32": "i64"}


def _scatter(rule: Rule) -> list[Tensor]:
    """ScatterElements in the flattened array, with a place behind it for what is out of bounds."""
    graph, operation = rule.graph, rule.operation
    if len(operation.results) != 1:
        raise UnsupportedError("stablehlo.scatter of several arrays")
    reduction = _reduction(rule)
    value, updates = rule.whole(0), rule.whole(2)
    if not updates.shape or 0 not in updates.shape:
        place = graph.reshape(
            graph.full(_places(rule, value, updates), updates.shape), (prod(updates.shape),)
        )
        ordered = reduction in _NANS and value.element in graph_elementwise.FLOATS
        flat, new = (
            graph.reshape(_to_scatterable(graph, each, reduction), (prod(each.shape),))
            for each in (value, updates)
        )
        flat = graph.pad(flat, [0], [1], graph.like(0, flat))
        inputs = [flat, place, new]
        how: dict[str, Attribute] = {"axis": 0, "reduction": reduction}
        made = graph.node("ScatterElements", inputs, flat.shape, flat.element, **how)
        made = graph.reshape(graph.part(made, 0, 0, prod(value.shape)), value.shape)
        made = graph_elementwise.from_order_key(graph, made) if ordered else made
        value = graph.cast(made, value.element)
    return [value]


def _to_scatterable(graph: Graph, value: Tensor, reduction: str) -> Tensor:
    """Return numbers of a type that can be scattered.

    ONNX Runtime compares by `a > b ? a : b`, which passes over NaN: floats of which the largest or
    the smallest is kept become integers in their order, and NaN the last of them.
    """
    if reduction not in _NANS or value.element not in graph_elementwise.FLOATS:
        return graph.cast(value, _SCATTERED.get(value.element, value.element))
    wide = graph_elementwise.to_computed(graph, value)
    last = graph.like(_NANS[reduction], wide)
    return graph_elementwise.order_key(graph, graph.where(graph.is_nan(wide), last, wide))


def _reduction(rule: Rule) -> str:
    (block,) = rule.operation.blocks
    if block.returned == [block.arguments[1]]:
        return "none"
    name = body_of(block)
    if rule.operands[0].element == "i1":
        name = {"stablehlo.or": "stablehlo.maximum", "stablehlo.and": "stablehlo.minimum"}.get(
            name, ""
        )
    if name not in _REDUCTIONS:
        raise UnsupportedError("stablehlo.scatter with a function of its own")
    return _REDUCTIONS[name]


def _places(rule: Rule, value: Tensor, updates: Tensor) -> Tensor:
    """Return the position of each number of the updates in the flattened array."""
    graph = rule.graph
    numbers = rule.operation.attributes["scatter_dimension_numbers"]
    window = numbers["update_window_dims"]
    scattered = [axis for axis in range(len(updates.shape)) if axis not in window]
    batch = _batch(rule, numbers)
    batching = numbers["input_batching_dims"]
    gone = {*numbers["inserted_window_dims"], *batching}
    windows = [axis for axis in range(len(value.shape)) if axis not in gone]
    spread = [1] * len(updates.shape)
    for axis, size in zip(scattered, batch, strict=True):
        spread[axis] = size
    place, within = graph.constant(0, "i64"), None
    rank = len(updates.shape)
    for axis, size in enumerate(value.shape):
        step = prod(value.shape[axis + 1 :])
        length = updates.shape[window[windows.index(axis)]] if axis in windows else 1
        if axis in numbers["scattered_dims_to_operand_dims"]:
            number = numbers["scattered_dims_to_operand_dims"].index(axis)
            start = graph.reshape(_start(rule, number, numbers, batch), spread)
            highest = size - length
            inside = graph_elementwise.compare_by(graph, "LE", start, _limit(graph, highest, start))
            if not start.element.startswith("u"):
                inside = graph.each(
                    "And",
                    inside,
                    graph_elementwise.compare_by(graph, "GE", start, graph.like(0, start)),
                )
            if highest < 0:
                inside = graph.constant(False, "i1")
            within = inside if within is None else graph.each("And", within, inside)
            place = _plus(graph, place, graph.cast(start, "i64"), step)
        if axis in batching:
            where = numbers["scatter_indices_batching_dims"][batching.index(axis)]
            where -= where > numbers["index_vector_dim"]
            place = _plus(graph, place, _count(graph, size, scattered[where], rank), step)
        if length > 1:
            along = window[windows.index(axis)]
            place = _plus(graph, place, _count(graph, length, along, rank), step)
    if within is None:
        return place
    return graph.where(within, place, graph.constant(prod(value.shape), "i64"))


def _limit(graph: Graph, highest: int, like: Tensor) -> Tensor:
    most = np.iinfo(DTYPES[like.element]).max
    return graph.constant(min(max(highest, 0), int(most)), like.element)


RULES: Rules = {"stablehlo.gather": _gather, "stablehlo.scatter": _scatter}
