"""Sorts, the largest numbers, and where they are."""

from aotc.engines.onnx_graphs.graph_builder import Graph, Tensor
from aotc.engines.onnx_graphs.graph_elementwise import FLOATS, compare_by, order_key, to_computed
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules
from aotc.engines.onnx_graphs.stablehlo_program import Block, Operation, UnsupportedError, Value


def _sort(rule: Rule) -> list[Tensor]:
    """Stable sorts by each key, the last one first: TopK gives equals in their order."""
    graph, operation = rule.graph, rule.operation
    axis = operation.attributes["dimension"] % max(1, len(operation.operands[0].shape))
    keys = _keys(operation.blocks[0])
    values = [rule.whole(index) for index in range(len(operation.operands))]
    size = values[0].shape[axis]
    if size < 2 or 0 in values[0].shape:
        return values
    for number, descending in reversed(keys):
        places = _largest(graph, _key(graph, values[number]), size, axis, descending)
        values = [_take(graph, each, places, axis) for each in values]
    return values


def _take(graph: Graph, value: Tensor, places: Tensor, axis: int) -> Tensor:
    return graph.node("GatherElements", [value, places], places.shape, value.element, axis=axis)


def _largest(graph: Graph, key: Tensor, count: int, axis: int, largest: bool) -> Tensor:
    """Places of the largest or the smallest keys, in order."""
    shape = list(key.shape)
    shape[axis] = count
    inputs = [key, graph.ints(count)]
    outputs = [(shape, key.element), (shape, "i64")]
    return graph.several("TopK", inputs, outputs, axis=axis, largest=int(largest), sorted=1)[1]


def _key(graph: Graph, value: Tensor) -> Tensor:
    """Integers in the order of jax's comparisons: zeros are equal, what is no number is largest."""
    if value.element == "ui64":
        return graph.cast(graph.each("BitwiseXor", value, graph.like(2**63, value)), "i64")
    if value.element in FLOATS:
        wide = to_computed(graph, value)
        zero = graph.like(0, wide)
        wide = graph.where(compare_by(graph, "EQ", wide, zero), zero, wide)
        wide = graph.where(graph.is_nan(wide), graph.like(float("nan"), wide), wide)
        return order_key(graph, wide)
    return graph.cast(value, "i64" if value.element in ("ui32", "i64") else "i32")


def _keys(block: Block) -> list[tuple[int, bool]]:
    """Return a comparison's operands in order, and whether the largest comes first."""
    (returned,) = block.returned
    found = _sort_keys(block, returned)
    if found is None:
        raise UnsupportedError("stablehlo.sort with a comparison of its own")
    return found


def _sort_keys(block: Block, value: Value) -> list[tuple[int, bool]] | None:
    made_by = value.made_by
    if made_by is None:
        return None
    if made_by.name == "stablehlo.compare":
        return _simple(block, made_by)
    if made_by.name != "stablehlo.or":
        return None
    one, both = made_by.operands
    first = _sort_keys(block, one)
    if (
        first is None
        or len(first) != 1
        or both.made_by is None
        or both.made_by.name != "stablehlo.and"
    ):
        return None
    equal, rest = both.made_by.operands
    more = _sort_keys(block, rest)
    tied = equal.made_by
    if more is None or tied is None or tied.name != "stablehlo.compare":
        return None
    sides = [_argument(block, each) for each in tied.operands]
    number = first[0][0]
    if tied.attributes["comparison_direction"] != "EQ" or sides != [2 * number, 2 * number + 1]:
        return None
    return [*first, *more]


def _simple(block: Block, compare: Operation) -> list[tuple[int, bool]] | None:
    one, other = (_argument(block, each) for each in compare.operands)
    direction = compare.attributes["comparison_direction"]
    if one is None or other is None or direction not in ("LT", "GT") or one // 2 != other // 2:
        return None
    if one == other:
        return None
    return [(one // 2, (direction == "GT") == (one < other))]


def _argument(block: Block, value: Value) -> int | None:
    """Return the argument behind a value, ignoring jax's treatment of zeros and NaN."""
    for place, argument in enumerate(block.arguments):
        if value is argument:
            return place
    made_by = value.made_by
    if made_by is None or made_by.name != "stablehlo.select":
        return None
    condition, instead, other = made_by.operands
    test = condition.made_by
    if test is None or test.name != "stablehlo.compare":
        return None
    number = _argument(block, other)
    if number is None or block.arguments[number] not in test.operands:
        return None
    constant = instead.made_by
    return number if constant is not None and constant.name == "stablehlo.constant" else None


def _top_k(rule: Rule) -> list[Tensor]:
    graph, value = rule.graph, rule.whole(0)
    axis = len(value.shape) - 1
    count = rule.operation.results[0].shape[axis]
    if not count or 0 in value.shape:
        return rule.evaluate(graph, rule.operation.blocks[0], rule.operands)
    key = order_key(graph, value) if value.element in FLOATS else _key(graph, value)
    places = _largest(graph, key, count, axis, True)
    return [
        _take(graph, value, places, axis),
        graph.cast(places, rule.operation.results[1].element),
    ]


def arg_extreme(graph: Graph, value: Tensor, axis: int, largest: bool) -> Tensor:
    """Return the place of an axis's largest or smallest number: of NaN if any, first of equals."""
    operator = "ArgMax" if largest else "ArgMin"
    shape = [size for at, size in enumerate(value.shape) if at != axis]
    value = graph.cast(value, "f32")
    # A sum of absolute values is no number where one of these is none, and nowhere else.
    total = graph.node("ReduceL1", [value], (), "f32", keepdims=0)
    usual, odd = Graph(graph), Graph(graph)
    usual.output(usual.node(operator, [value], shape, "i64", axis=axis, keepdims=0), shape)
    none = odd.is_nan(value)
    axes = odd.ints(axis)
    of_none = odd.node("ArgMax", [odd.cast(none, "f32")], shape, "i64", axis=axis, keepdims=0)
    has_none = odd.node("ReduceMax", [none, axes], shape, "i1", keepdims=0)
    of_numbers = odd.node(operator, [value], shape, "i64", axis=axis, keepdims=0)
    odd.output(odd.where(has_none, of_none, of_numbers), shape)
    found = graph.is_nan(total)
    return graph.node("If", [found], shape, "i64", then_branch=odd, else_branch=usual)


RULES: Rules = {"chlo.top_k": _top_k, "stablehlo.sort": _sort}
