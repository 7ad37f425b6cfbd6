"""Operations of our own (`patterns`), each one of ONNX's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aotc.backends.onnx_graphs import patterns
from aotc.backends.onnx_graphs.elementwise import one_more_than_power
from aotc.backends.onnx_graphs.graph import Tensor
from aotc.backends.onnx_graphs.program import DTYPES
from aotc.backends.onnx_graphs.rules import Rule, Rules
from aotc.backends.onnx_graphs.sorting import arg_extreme


def _along(operator: str) -> Callable[[Rule], list[Tensor]]:
    def rule(rule: Rule) -> list[Tensor]:
        value, axis = rule.whole(0), rule.operation.attributes["axis"]
        return [rule.graph.node(operator, [value], value.shape, value.element, axis=axis)]

    return rule


def _relu(rule: Rule) -> list[Tensor]:
    return [rule.graph.each("Relu", rule.operands[0])]


def _gelu(approximate: str) -> Callable[[Rule], list[Tensor]]:
    def rule(rule: Rule) -> list[Tensor]:
        (value,) = rule.operands
        return [rule.graph.each("Gelu", value, approximate=approximate)]

    return rule


def _swish(rule: Rule) -> list[Tensor]:
    graph, (value,) = rule.graph, rule.operands
    return [graph.each("Div", value, one_more_than_power(graph, value))]


def _normalization(operator: str) -> Callable[[Rule], list[Tensor]]:
    def rule(rule: Rule) -> list[Tensor]:
        graph, value = rule.graph, rule.whole(0)
        rows = [rule.whole(index) for index in range(1, len(rule.operands))]
        if not rows:
            ones = np.ones(value.shape[-1], DTYPES[value.element])
            rows = [graph.constant(ones, value.element)]
        epsilon = rule.operation.attributes["epsilon"]
        return [
            graph.node(
                operator, [value, *rows], value.shape, value.element, axis=-1, epsilon=epsilon
            )
        ]

    return rule


def _arg_extreme(largest: bool) -> Callable[[Rule], list[Tensor]]:
    def rule(rule: Rule) -> list[Tensor]:
        graph, value = rule.graph, rule.whole(0)
        axis, (numbers, places) = rule.operation.attributes["axis"], rule.operation.results
        found = arg_extreme(graph, value, axis, largest)
        shape = [size if at != axis else 1 for at, size in enumerate(value.shape)]
        at = graph.reshape(found, shape)
        taken = graph.node("GatherElements", [value, at], shape, value.element, axis=axis)
        return [
            graph.reshape(taken, numbers.shape),
            graph.cast(found, places.element),
        ]

    return rule


RULES: Rules = {
    patterns.ARG_MAX: _arg_extreme(True),
    patterns.ARG_MIN: _arg_extreme(False),
    patterns.GELU: _gelu("none"),
    patterns.LAYER_NORM: _normalization("LayerNormalization"),
    patterns.LOG_SOFTMAX: _along("LogSoftmax"),
    patterns.RELU: _relu,
    patterns.RMS_NORM: _normalization("RMSNormalization"),
    patterns.SOFTMAX: _along("Softmax"),
    patterns.SWISH: _swish,
    patterns.TANH_GELU: _gelu("tanh"),
}
