"""Converts a graph to an ONNX model whose weights are parameters, used in the loader's mapping."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from aotc.engines.onnx_graphs.graph_builder import Graph, Node
from aotc.engines.onnx_graphs.stablehlo_program import Array
from aotc_runtime.engines import graph_names

IR_VERSION = 13
_OWN, _OWNED = "com.microsoft", ("MatMulNBits",)
"""ONNX Runtime's own operators, and their domain."""

_ELEMENTS = {
    "i1": TensorProto.BOOL,
    **{f"i{bits}": getattr(TensorProto, f"INT{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": getattr(TensorProto, f"UINT{bits}") for bits in (8, 16, 32, 64)},
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
}


def model_of(graph: Graph) -> Any:
    """Return the graph as an ONNX model, its weights among its parameters."""
    used = {name for node in graph.walk() for name in node.inputs}
    initializers = [
        _tensor(name, element, array)
        for name, (element, array) in graph.names.arrays.items()
        if name in used
    ]
    return helper.make_model(
        _proto(graph, "main", initializers),
        opset_imports=[helper.make_opsetid("", graph_names.OPSET), helper.make_opsetid(_OWN, 1)],
        ir_version=IR_VERSION,
        producer_name="aotc",
    )


def _proto(graph: Graph, name: str, initializers: Sequence[Any] = ()) -> Any:
    return helper.make_graph(
        [*map(_node, graph.nodes)],
        name,
        *(
            [
                helper.make_tensor_value_info(
                    each.name,
                    _ELEMENTS[each.element],
                    graph.names.axes.get(each.name, each.shape),
                )
                for each in values
            ]
            for values in (graph.inputs, graph.outputs)
        ),
        initializer=list(initializers),
    )


def _node(node: Node) -> Any:
    attributes: dict[str, Any] = {}
    for name, value in sorted(node.attributes.items()):
        if isinstance(value, Graph):
            attributes[name] = _proto(value, name)
        elif name == "to":
            attributes[name] = _ELEMENTS[str(value)]
        elif isinstance(value, tuple):
            attributes[name] = list(value)
        else:
            attributes[name] = value
    # Names say what a node is for, in messages of what takes the graph.
    made = helper.make_node(node.operator, node.inputs, node.outputs, **attributes)
    if node.operator in _OWNED:
        made.domain = _OWN
    made.name = f"{node.origin}/{node.outputs[0]}"
    return made


def _tensor(name: str, element: str, array: Array) -> Any:
    tensor = TensorProto(name=name, data_type=_ELEMENTS[element], dims=array.shape)
    tensor.raw_data = np.ascontiguousarray(array).tobytes()
    return tensor
