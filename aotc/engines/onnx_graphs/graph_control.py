"""Loops and branches."""

from __future__ import annotations

from aotc.engines.onnx_graphs.graph_builder import Graph, Tensor
from aotc.engines.onnx_graphs.graph_elementwise import compared
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules
from aotc.engines.onnx_graphs.stablehlo_program import Block


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
        here = compared(graph, "EQ", index, graph.like(number, index))
        return _if(rule, graph, here, blocks[number], lambda other: branch(other, number + 1))

    return branch(rule.graph, 0)


def _if_rule(rule: Rule) -> list[Tensor]:
    one, other = rule.operation.blocks
    return _if(
        rule, rule.graph, rule.operands[0], one, lambda graph: rule.evaluate(graph, other, [])
    )


def _if(rule: Rule, graph: Graph, condition: Tensor, one: Block, other) -> list[Tensor]:  # type: ignore[no-untyped-def]
    then, otherwise = Graph(graph), Graph(graph)
    for branch, made in (
        (then, rule.evaluate(then, one, [])),
        (otherwise, other(otherwise)),
    ):
        for each, value in zip(made, rule.operation.results, strict=True):
            branch.output(each, value.shape)
    outputs = [(value.shape, value.element) for value in rule.operation.results]
    return graph.several(
        "If", [graph.full(condition, ())], outputs, then_branch=then, else_branch=otherwise
    )


RULES: Rules = {
    "stablehlo.case": _case,
    "stablehlo.if": _if_rule,
    "stablehlo.while": _while,
}
