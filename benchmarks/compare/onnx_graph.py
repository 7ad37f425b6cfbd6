"""An ONNX graph, written operation by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

OPSET = 20


class Graph:
    """A graph under construction: every method adds a node and returns its output's name."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}

    def constant(self, array: Any, name: str | None = None) -> str:
        name = name or f"constant_{len(self.initializers)}"
        self.initializers[name] = np.asarray(array, order="C")
        return name

    def weight(self, name: str) -> str:
        return self.constant(self.weights[name], name)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, *inputs, count=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        import onnx

        outputs = [f"v{len(self.nodes)}_{index}" for index in range(count)]
        self.nodes.append(onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs

    def scalar(self, value: float) -> str:
        return self.constant(np.float32(value))

    def shape(self, *axes: int) -> str:
        return self.constant(np.array(axes, np.int64))

    def scaled(self, array: str, factor: float) -> str:
        return self.op("Mul", array, self.scalar(factor))

    def save(self, path: Path, given: Any, outputs: Sequence[str], expected: Sequence[Any]) -> Path:
        from onnx import checker, helper, numpy_helper, save_model

        def info(name: str, array: Any) -> Any:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            return helper.make_tensor_value_info(name, kind, array.shape)

        graph = helper.make_graph(
            self.nodes,
            "model",
            [info("input", given)],
            [info(name, array) for name, array in zip(outputs, expected, strict=True)],
            [numpy_helper.from_array(array, name) for name, array in self.initializers.items()],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model_gen_version(graph, opset_imports=opsets)
        checker.check_model(model, full_check=True)
        save_model(model, path)
        return path
