"""Operations that move numbers about: shapes, slices, edges, and windows at computed places."""

import numpy as np

from aotc.engines.onnx_graphs.graph_builder import END, Graph, Tensor, strip
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules


def _broadcast(rule: Rule) -> list[Tensor]:
    """Return the operand with its axes in place; consumers repeat the numbers."""
    (value,), result = rule.operands, rule.operation.result
    places = rule.numbers("broadcast_dimensions")
    own = (1,) * (len(places) - len(value.shape)) + value.shape
    shape = [1] * len(result.shape)
    for place, size in zip(places, own, strict=True):
        shape[place] = size
    order = sorted(range(len(places)), key=lambda axis: places[axis])
    if order != list(range(len(places))):
        value = rule.graph.transpose(rule.graph.reshape(value, own), order)
    return [rule.graph.reshape(value, strip(shape))]


def _reshape(rule: Rule) -> list[Tensor]:
    (value,) = rule.operands
    if not value.shape:
        return [value]
    return [rule.graph.reshape(rule.whole(0), rule.operation.result.shape)]


def _transpose(rule: Rule) -> list[Tensor]:
    (value,), order = rule.operands, rule.numbers("permutation")
    own = (1,) * (len(order) - len(value.shape)) + value.shape
    return [rule.graph.transpose(rule.graph.reshape(value, own), order)]


def _slice(rule: Rule) -> list[Tensor]:
    starts, ends, steps = (
        rule.numbers(name) for name in ("start_indices", "limit_indices", "strides")
    )
    if not rule.operands[0].shape and rule.operation.result.size:
        return [rule.operands[0]]
    return [rule.graph.slice(rule.whole(0), starts, ends, steps)]


def _concatenate(rule: Rule) -> list[Tensor]:
    parts = [rule.whole(index) for index in range(len(rule.operands))]
    return [rule.graph.concat(parts, rule.operation.attributes["dimension"])]


def reverse(graph: Graph, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the axes from their ends to their starts."""
    axes = tuple(axis for axis in axes if value.shape[axis] > 1)
    if not axes or 0 in value.shape:
        return value
    back, ends = (graph.ints(*[each] * len(axes)) for each in (-1, -END))
    operands = [value, back, ends, graph.ints(*axes), back]
    return graph.node("Slice", operands, value.shape, value.element)


def _pad(rule: Rule) -> list[Tensor]:
    low, high, inside = (
        rule.numbers(f"{name}_padding{end}")
        for name, end in (("edge", "_low"), ("edge", "_high"), ("interior", ""))
    )
    return [pad_array(rule.graph, rule.whole(0), rule.operands[1], low, high, inside)]


def pad_array(
    graph: Graph,
    value: Tensor,
    filler: Tensor,
    low: tuple[int, ...],
    high: tuple[int, ...],
    inside: tuple[int, ...],
) -> Tensor:
    """Return numbers around and between those of an array; less than none are taken away."""
    for axis, between in enumerate(inside):
        size = value.shape[axis]
        if not between or size < 2:
            continue
        before, after = value.shape[:axis], value.shape[axis + 1 :]
        apart = graph.reshape(value, (*before, size, 1, *after))
        more = [0] * len(apart.shape)
        more[axis + 1] = between
        apart = graph.pad(apart, [0] * len(more), more, filler)
        joined = graph.reshape(apart, (*before, size * (between + 1), *after))
        value = graph.part(joined, axis, 0, (size - 1) * (between + 1) + 1)
    added = graph.pad(
        value, [max(0, each) for each in low], [max(0, each) for each in high], filler
    )
    starts = [max(0, -each) for each in low]
    ends = [size - max(0, -each) for size, each in zip(added.shape, high, strict=True)]
    return graph.slice(added, starts, ends)


def _dynamic_slice(rule: Rule) -> list[Tensor]:
    graph, value = rule.graph, rule.whole(0)
    sizes = rule.numbers("slice_sizes")
    moving = [axis for axis, size in enumerate(sizes) if size < value.shape[axis]]
    if not moving:
        return [value]
    starts = [
        graph.reshape(
            start_within(graph, rule.operands[1 + axis], value.shape[axis] - sizes[axis]), (1,)
        )
        for axis in moving
    ]
    lengths = [sizes[axis] for axis in moving]
    if all(start.constant is not None for start in starts):
        first, ends = [0] * len(sizes), list(value.shape)
        for axis, start in zip(moving, starts, strict=True):
            first[axis] = int(start.number)
            ends[axis] = first[axis] + sizes[axis]
        return [graph.slice(value, first, ends)]
    start = graph.concat(starts, 0)
    end = graph.each("Add", start, graph.ints(*lengths))
    operands = [value, start, end, graph.ints(*moving)]
    return [graph.node("Slice", operands, sizes, value.element)]


def start_within(graph: Graph, start: Tensor, highest: int) -> Tensor:
    """Starts of a window, moved to where all of it is within the array."""
    if start.constant is not None:
        return graph.constant(np.clip(start.constant.astype(np.int64), 0, highest), "i64")
    wide = graph.cast(start, "i64")
    if start.element == "ui64":
        wide = graph.cast(graph.each("Min", start, graph.like(highest, start)), "i64")
    zero, most = graph.constant(0, "i64"), graph.constant(highest, "i64")
    return graph.each("Min", graph.each("Max", wide, zero), most)


def _dynamic_update_slice(rule: Rule) -> list[Tensor]:
    graph, value, update = rule.graph, rule.whole(0), rule.whole(1)
    if 0 in update.shape:
        return [value]
    starts = {
        axis: start_within(graph, rule.operands[2 + axis], size - update.shape[axis])
        for axis, size in enumerate(value.shape)
        if update.shape[axis] < size
    }
    return [_update(graph, value, update, starts)]


def _update(graph: Graph, value: Tensor, update: Tensor, starts: dict[int, Tensor]) -> Tensor:
    """Cut along one axis after the other, and join with what is new in the middle."""
    if not starts:
        return update
    (axis, start), *rest = starts.items()
    first = graph.reshape(start, (1,))
    size, axes = update.shape[axis], graph.ints(axis)
    end = graph.each("Add", first, graph.ints(size))

    def cut(begin: Tensor, until: Tensor, length: int) -> Tensor:
        shape = [*value.shape]
        shape[axis] = length
        return graph.node("Slice", [value, begin, until, axes], shape, value.element)

    inside = _update(graph, cut(first, end, size), update, dict(rest)) if rest else update
    before, after = cut(graph.ints(0), first, 0), cut(end, graph.ints(END), 0)
    parts = [before, inside, after]
    return graph.node("Concat", parts, value.shape, value.element, axis=axis)


RULES: Rules = {
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.pad": _pad,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": lambda rule: [
        reverse(rule.graph, rule.whole(0), rule.numbers("dimensions"))
    ],
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
