"""From a program of StableHLO to an ONNX graph."""

from collections.abc import Callable, Collection, Sequence

from aotc.engines.onnx_graphs import (
    graph_elementwise,
    graph_fused,
    graph_indexing,
    graph_layout,
    graph_patterns,
    graph_products,
    graph_quantized,
    graph_quantized_rules,
    graph_reductions,
    graph_sorting,
    graph_transposes,
)
from aotc.engines.onnx_graphs.graph_builder import ALL_KERNELS, Graph, Kernels, Tensor
from aotc.engines.onnx_graphs.graph_elementwise import compare_by
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules
from aotc.engines.onnx_graphs.stablehlo_program import (
    NARROW,
    Block,
    Operation,
    UnsupportedError,
    Value,
    require_none,
)
from aotc_runtime.engines import graph_names


def _while(rule: Rule) -> list[Tensor]:
    """Loop, whose body says at its end whether it goes on."""
    graph, (condition, body) = rule.graph, rule.operation.blocks
    values = rule.operation.results
    given = [rule.whole(index) for index in range(len(values))]
    (starts,) = rule.evaluate(graph, condition, given)
    inner = Graph(graph)
    inner.input(inner.fresh(), (), "i64")
    inner.input(inner.fresh(), (), "i1")
    taken = [inner.input(inner.fresh(), value.shape, value.element) for value in values]
    made = rule.evaluate(inner, body, taken)
    made = [inner.full(each, value.shape) for each, value in zip(made, values, strict=True)]
    (goes_on,) = rule.evaluate(inner, condition, made)
    inner.output(goes_on, ())
    for each, value in zip(made, values, strict=True):
        inner.output(each, value.shape)
    outputs = [(value.shape, value.element) for value in values]
    inputs = [None, graph.full(starts, ()), *given]
    return graph.several("Loop", inputs, outputs, body=inner)


def _case(rule: Rule) -> list[Tensor]:
    """Branches by their number; the last one for any other number."""
    index = rule.operands[0]
    blocks = rule.operation.blocks

    def branch(graph: Graph, number: int) -> list[Tensor]:
        if number == len(blocks) - 1:
            return rule.evaluate(graph, blocks[number], [])
        here = compare_by(graph, "EQ", index, graph.like(number, index))
        return _if(rule, graph, here, blocks[number], lambda other: branch(other, number + 1))

    return branch(rule.graph, 0)


def _if_rule(rule: Rule) -> list[Tensor]:
    one, other = rule.operation.blocks
    return _if(
        rule, rule.graph, rule.operands[0], one, lambda graph: rule.evaluate(graph, other, [])
    )


def _if(
    rule: Rule, graph: Graph, condition: Tensor, one: Block, other: Callable[[Graph], list[Tensor]]
) -> list[Tensor]:
    then, otherwise = Graph(graph), Graph(graph)
    for branch, made in ((then, rule.evaluate(then, one, [])), (otherwise, other(otherwise))):
        for each, value in zip(made, rule.operation.results, strict=True):
            branch.output(each, value.shape)
    outputs = [(value.shape, value.element) for value in rule.operation.results]
    return graph.several(
        "If", [graph.full(condition, ())], outputs, then_branch=then, else_branch=otherwise
    )


CONTROL_RULES: Rules = {
    "stablehlo.case": _case,
    "stablehlo.if": _if_rule,
    "stablehlo.while": _while,
}

RULES: Rules = {
    **CONTROL_RULES,
    **graph_elementwise.RULES,
    **graph_fused.RULES,
    **graph_indexing.RULES,
    **graph_layout.RULES,
    **graph_products.RULES,
    **graph_quantized_rules.RULES,
    **graph_reductions.RULES,
    **graph_sorting.RULES,
}

_OUTSIDE = {"bf16": "ui16", **dict.fromkeys(NARROW, "ui8")}
"""What parameters and results are whose type numpy has not."""

_OF_NARROW = ("stablehlo.convert", graph_quantized.DEQUANTIZE, graph_quantized.WEIGHTED)


def translate(
    program: Block,
    weights: Collection[int],
    kernels: Kernels = ALL_KERNELS,
    other: Graph | None = None,
) -> Graph:
    """Return the graph of a program whose parameters at these places are weights; it is changed.

    `other` is its graph at another size, which this one is to be like. Raises UnsupportedError for
    all that ONNX Runtime would compute otherwise.
    """
    total = program.flops
    graph = Graph()
    graph.names.kernels = kernels
    if other is not None:
        graph.names.followed = iter(other.names.decisions)
    graph_quantized.fuse(program, weights)
    graph_patterns.fuse(program, graph.names.decide)
    known: dict[int, Tensor] = {}
    for place, value in enumerate(program.arguments):
        name = graph_names.weight(place) if place in weights else graph_names.input_name(place)
        if place in weights:
            graph.names.fixed.add(name)
        outside = graph.input(name, value.shape, _OUTSIDE.get(value.element, value.element))
        if value.element in NARROW:
            known[id(value)] = graph_elementwise.from_four_bits(graph, outside, value.element)
        else:
            known[id(value)] = graph_elementwise.bit_cast(graph, outside, value.element)
    translation = _Translation(known)
    found = translation.block(graph, program)
    require_none(translation.refused, total)
    for place, (tensor, value) in enumerate(zip(found, program.returned, strict=True)):
        if value.element in NARROW:
            raise UnsupportedError(f"a result of {value.element}")
        passed = graph_elementwise.bit_cast(
            graph, tensor, _OUTSIDE.get(value.element, value.element)
        )
        graph.output(passed, value.shape, graph_names.result(place))
    graph.prune()
    graph_transposes.cancel(graph)
    return graph


class _Translation:
    """known: the tensor of each value that there is, by its identity.

    `refused` has operations without an equal in ONNX, by what they are.
    """

    def __init__(self, known: dict[int, Tensor]) -> None:
        self._known = known
        self.refused: dict[str, list[Operation]] = {}

    def block(self, graph: Graph, block: Block) -> list[Tensor]:
        """Put the operations of a block into a graph; what the block gives."""
        outer = graph.names.origin
        for operation in block.operations:
            graph.names.origin = operation.name
            for value, tensor in zip(
                operation.results, self._results(graph, operation), strict=True
            ):
                self._known[id(value)] = tensor
        graph.names.origin = outer
        return [self._known[id(value)] for value in block.returned]

    def _results(self, graph: Graph, operation: Operation) -> Sequence[Tensor]:
        try:
            return self._translate(graph, operation)
        except UnsupportedError as error:
            self.refused.setdefault(str(error), []).append(operation)
            # Stand-ins, so that everything else that is refused is found as well.
            return [graph.input(graph.fresh(), v.shape, v.element) for v in operation.results]

    def _translate(self, graph: Graph, operation: Operation) -> Sequence[Tensor]:
        operands = [self._known[id(value)] for value in operation.operands]
        for value in operation.operands:
            if value.element in NARROW and operation.name not in _OF_NARROW:
                raise UnsupportedError(f"{operation.name} of {value.element}")
        rule = RULES.get(operation.name)
        if rule is not None:
            return rule(Rule(graph, operation, operands, self._evaluate))
        if operation.name.startswith("stablehlo.") or not operation.blocks:
            raise UnsupportedError(operation.name)
        # A composite that nobody knows is what it is made of.
        return self.block(graph, operation.blocks[0])

    def _evaluate(self, graph: Graph, block: Block, arguments: Sequence[Tensor]) -> list[Tensor]:
        known: Sequence[Value] = block.arguments if arguments else ()
        for value, tensor in zip(known, arguments, strict=False):
            self._known[id(value)] = tensor
        return self.block(graph, block)
