"""Optimizes an ONNX model with ONNX Runtime, with the weights as parameters.

The weights stay where the loader maps them. As they are parameters, optimizations that depend on
their numbers (folding, layouts, packing) happen at load.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from aotc.engines.onnx_graphs.graph_builder import Graph, Node
from aotc.engines.onnx_graphs.graph_elementwise import bit_cast
from aotc.engines.onnx_graphs.graph_job import CALLING, SPINNING
from aotc.engines.onnx_graphs.graph_model import model_of
from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError
from aotc_runtime.engines import graph_names
from aotc_runtime.engines.onnxruntime import onnxruntime_names as names

_FATAL = 4
"""ONNX Runtime's severity above which it logs: what it raises is enough."""

_WORDS_MAX = 300

_BITS = {"f32": "i32", "f64": "i64"}
"""Integers of as many bits."""

_NAMED = re.compile(r"[\w.]+/v\d+")
"""A node's name in messages of ONNX Runtime."""


def options() -> Any:
    """Return options of a session that only makes graphs."""
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = 1
    chosen.log_severity_level = _FATAL
    return chosen


def optimize(graph: Graph, folder: Path) -> Any:
    """Return ONNX Runtime's optimized graph for any processor, by a file in `folder`.

    Raises UnsupportedError, which names the operation, for what it has no code for.
    """
    _keep_signs(graph)
    model, chosen, made = model_of(graph), options(), folder / "optimized.onnx"
    chosen.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    chosen.optimized_model_filepath = str(made)
    onnxruntime.disable_telemetry_events()
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(),
            chosen,
            providers=[names.PROVIDER],
            disabled_optimizers=list(names.DISABLED),
        )
    except Exception as error:
        raise UnsupportedError(_refused_operation(graph, str(error))) from error
    return onnx.load_model(made)


def _keep_signs(graph: Graph) -> None:
    """Choose among the bits of floats: of -0 in its first array ONNX Runtime's Where makes 0."""
    tensors, nodes, graph.nodes = graph.names.tensors, graph.nodes, []
    for node in nodes:
        for inner in node.graphs:
            _keep_signs(inner)
        element = tensors[node.outputs[0]].element
        if (
            node.operator != "Where"
            or element not in _BITS
            or _is_positive_at_zero(graph, node.inputs[1])
        ):
            graph.nodes.append(node)
            continue
        graph.names.origin = node.origin
        condition, *floats = (tensors[name] for name in node.inputs)
        bits = graph.where(condition, *(bit_cast(graph, each, _BITS[element]) for each in floats))
        back = Node("BitCast", (bits.name,), node.outputs, {"to": element}, node.origin)
        graph.nodes.append(back)


def _is_positive_at_zero(graph: Graph, name: str) -> bool:
    """Return whether an array is a constant whose zeros are positive."""
    if name not in graph.names.arrays:
        return False
    _, array = graph.names.arrays[name]
    return not bool(np.any((array == 0) & np.signbit(array)))


def _refused_operation(graph: Graph, words: str) -> str:
    """Name the operation of which ONNX Runtime says that it does not take it."""
    names = {name: node for node in graph.walk() for name in (f"{node.origin}/{node.outputs[0]}",)}
    for said in _NAMED.findall(words):
        if (node := names.get(said)) is not None:
            element = graph.names.tensors[node.outputs[0]].element
            lacks = "Could not find an implementation" in words
            why = f"no {node.operator}" if lacks else f"another {node.operator}"
            return f"{node.origin}: ONNX Runtime has {why} of {element}"
    return words[:_WORDS_MAX]


def with_weights_outside(model: Any, weights: Collection[int], threads: str) -> bytes:
    """Return the model's bytes, with weight parameters as arrays that a call passes.

    threads: who computes a call (`aotc.engines.onnx_graphs.graph_job`).
    """
    outside = {graph_names.weight(place) for place in weights}
    graph, used = model.graph, _used_values(model.graph)
    kept = [each for each in graph.input if each.name not in outside]
    for each in sorted(graph.input, key=lambda each: each.name):
        if each.name in outside & used:
            graph.initializer.append(_reference(each))
    del graph.input[:]
    graph.input.extend(kept)
    del graph.value_info[:]
    if threads != CALLING:
        how = names.SPINNING if threads == SPINNING else "1"
        model.metadata_props.add(key=names.POOLED, value=how)
    model.producer_name, model.producer_version = "aotc", ""
    return bytes(model.SerializeToString(deterministic=True))


def _used_values(graph: Any) -> set[str]:
    """Return names of values that the nodes of a graph take, within loops and branches too."""
    inside = [attribute.g.output for node in _walk(graph) for attribute in node.attribute]
    found = {each.name for outputs in inside for each in outputs}
    return found.union(*(node.input for node in _walk(graph)))


def _walk(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph, within loops and branches too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _walk(attribute.g)


def _reference(value: Any) -> Any:
    kind = value.type.tensor_type
    shape = [each.dim_value for each in kind.shape.dim]
    tensor = TensorProto(name=value.name, data_type=kind.elem_type, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    size = helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize * int(np.prod(shape))
    for key, text in (("location", names.WEIGHTS), ("offset", "0"), ("length", str(size))):
        tensor.external_data.add(key=key, value=text)
    return tensor


def operators(model: Any) -> dict[str, int]:
    """Return how often each operator occurs; the body of a loop counts once."""
    return dict(sorted(Counter(node.op_type for node in _walk(model.graph)).items()))
