"""Operations of our own (`patterns`), each one of ONNX's."""

from collections.abc import Callable, Sequence

import numpy as np

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs import graph_patterns
from aotc.engines.onnx_graphs.graph_builder import Attribute, Graph, Tensor
from aotc.engines.onnx_graphs.graph_elementwise import one_more_than_power
from aotc.engines.onnx_graphs.graph_rules import Rule, Rules, operand_rule
from aotc.engines.onnx_graphs.graph_sorting import arg_extreme


def _along(operator: str) -> Callable[[Rule], list[Tensor]]:
    def rule(rule: Rule) -> list[Tensor]:
        value, axis = rule.whole(0), rule.operation.attributes["axis"]
        return [rule.graph.node(operator, [value], value.shape, value.element, axis=axis)]

    return rule


def _each(operator: str, **how: Attribute) -> Callable[[Rule], list[Tensor]]:
    return operand_rule(lambda graph, value: graph.each(operator, value, **how))


def _swish(graph: Graph, value: Tensor) -> Tensor:
    return graph.each("Div", value, one_more_than_power(graph, value))


def _rms_norm(rule: Rule) -> list[Tensor]:
    graph, value, rows = rule.graph, rule.whole(0), _rows(rule)
    how: dict[str, Attribute] = {"axis": -1, "epsilon": rule.operation.attributes["epsilon"]}
    return [graph.node("RMSNormalization", [value, *rows], value.shape, value.element, **how)]


def _layer_norm(rule: Rule) -> list[Tensor]:
    """Apply LayerNormalization to a quarter of the numbers, which has the same result.

    ONNX Runtime subtracts a row's first number, and large ones of both signs would be infinite. The
    program has no number in a row whose sum is infinite; ONNX Runtime would have the bias there.
    """
    graph, value, rows = rule.graph, rule.whole(0), _rows(rule)
    epsilon, squares = (rule.operation.attributes[name] for name in ("epsilon", "squares"))
    quarter = graph.like(0.25, value)
    if value.element == "f32" and not squares:
        row = (*value.shape[:-1], 1)
        total = graph.node("ReduceSum", [value, graph.ints(-1)], row, value.element, keepdims=1)
        quarter = graph.each("Add", graph.each("Mul", total, graph.like(0, total)), quarter)
    value = graph.each("Mul", value, quarter)
    how: dict[str, Attribute] = {"axis": -1, "epsilon": epsilon / 16}
    outputs: list[tuple[Sequence[int], str]] = [(value.shape, value.element)]
    if not squares:
        if not graph.names.kernels.operators:
            # OpenVINO's mean of numbers far from zero loses the digits of their differences.
            first = graph.part(value, len(value.shape) - 1, 0, 1)
            value = graph.each("Sub", value, first)
        return graph.several("LayerNormalization", [value, *rows], outputs, **how)
    outputs.append(((*value.shape[:-1], 1), value.element))
    made, mean = graph.several("LayerNormalization", [value, *rows], outputs, **how)
    # Where the square of the mean is infinite, the program has no number.
    mean = graph.each("Mul", mean, graph.like(4, mean))
    none = graph.each("Mul", graph.each("Mul", mean, mean), graph.like(0, mean))
    return [graph.each("Add", none, made)]


def _rows(rule: Rule) -> list[Tensor]:
    """Return the scale of a norm, which ONNX wants, and the bias if it has one."""
    value = rule.operation.operands[0]
    rows = [rule.whole(index) for index in range(1, len(rule.operands))]
    ones = np.ones(value.shape[-1], DTYPES[value.element])
    return rows or [rule.graph.constant(ones, value.element)]


def _arg_extreme(largest: bool) -> Callable[[Rule], list[Tensor]]:
    def rule(rule: Rule) -> list[Tensor]:
        graph, value = rule.graph, rule.whole(0)
        axis, (numbers, places) = rule.operation.attributes["axis"], rule.operation.results
        found = arg_extreme(graph, value, axis, largest)
        shape = [size if at != axis else 1 for at, size in enumerate(value.shape)]
        at = graph.reshape(found, shape)
        taken = graph.node("GatherElements", [value, at], shape, value.element, axis=axis)
        return [graph.reshape(taken, numbers.shape), graph.cast(found, places.element)]

    return rule


RULES: Rules = {
    graph_patterns.ARG_MAX: _arg_extreme(True),
    graph_patterns.ARG_MIN: _arg_extreme(False),
    graph_patterns.GELU: _each("Gelu", approximate="none"),
    graph_patterns.LAYER_NORM: _layer_norm,
    graph_patterns.LOG_SOFTMAX: _along("LogSoftmax"),
    graph_patterns.RELU: _each("Relu"),
    graph_patterns.RMS_NORM: _rms_norm,
    graph_patterns.SOFTMAX: _along("Softmax"),
    graph_patterns.SWISH: operand_rule(_swish),
    graph_patterns.TANH_GELU: _each("Gelu", approximate="tanh"),
}
