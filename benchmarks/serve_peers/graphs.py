"""The same models as ONNX graphs, operation by operation, from the weights of the examples.

Batch and length vary, as in exported models: ONNX Runtime pads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotc_serve.inference.protocol_tensors import Port
from benchmarks.compare.onnx_graph import OPSET, Graph
from benchmarks.compare.onnx_graphs import mlp
from benchmarks.serve_peers.models import EXAMPLES, FOLDER, PROGRAMS

EPSILON = 1e-6


def write(name: str, outputs: Sequence[Port]) -> None:
    """Write the graph of a model. outputs: as the protocol has them."""
    from onnx import TensorProto, checker, helper, numpy_helper, save_model

    graph, inputs, results = BUILD[name]()
    kinds = {"FP32": TensorProto.FLOAT, "INT32": TensorProto.INT32}
    info = helper.make_tensor_value_info
    made = helper.make_graph(
        graph.nodes,
        name,
        [info(each, kind, shape) for each, (kind, shape) in inputs.items()],
        [
            info(each, kinds[port.datatype], [None] * len(port.shape))
            for each, port in zip(results, outputs, strict=True)
        ],
        [numpy_helper.from_array(array, each) for each, array in graph.initializers.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model_gen_version(made, opset_imports=opsets)
    checker.check_model(model, full_check=True)
    save_model(model, FOLDER / name / "model.onnx")


type Built = tuple[Graph, dict[str, tuple[int, list[Any]]], list[str]]
"""A graph, its inputs with type and shape, its results."""


def _types() -> tuple[int, int]:
    from onnx import TensorProto

    return TensorProto.FLOAT, TensorProto.INT32


def _mlp() -> Built:
    from safetensors.numpy import load_file

    weights = load_file(EXAMPLES / "digits" / "params.safetensors")
    graph = Graph({name.replace(".", "/"): array for name, array in weights.items()})
    return graph, {"input": (_types()[0], ["batch", 64])}, mlp(graph, ())


def _normalized(graph: Graph, array: str) -> str:
    mean = graph.op("ReduceMean", graph.op("Mul", array, array), graph.shape(-1), keepdims=1)
    return graph.op("Div", array, graph.op("Sqrt", graph.op("Add", mean, graph.scalar(EPSILON))))


def _attention(graph: Graph, query: str, key: str, value: str, depth: int, seen: str | None) -> str:
    """Of [batch, length, heads, depth] each; the same, with the heads side by side."""
    scores = graph.op(
        "MatMul",
        graph.op("Transpose", query, perm=[0, 2, 1, 3]),
        graph.op("Transpose", key, perm=[0, 2, 3, 1]),
    )
    scores = graph.scaled(scores, 1 / math.sqrt(depth))
    if seen is not None:
        scores = graph.op("Where", seen, scores, graph.scalar(-np.inf))
    value = graph.op("Transpose", value, perm=[0, 2, 1, 3])
    mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
    return graph.op(
        "Reshape", graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), graph.shape(0, 0, -1)
    )


def _encoder() -> Built:
    """encoder.model:encode, where every token is real."""
    import jax

    from encoder.model import HEADS, WIDTH, _positions, init

    params: Any = jax.tree.map(np.asarray, init())
    graph, depth = Graph({}), WIDTH // HEADS
    heads = graph.shape(0, 0, HEADS, depth)
    length = graph.op("Shape", "tokens", start=1, end=2)
    places = graph.op(
        "Slice", graph.constant(np.asarray(_positions(64))), graph.shape(0), length, graph.shape(0)
    )
    hidden = graph.op(
        "Add", graph.op("Gather", graph.constant(params["embedding"]), "tokens"), places
    )
    for layer in params["layers"]:
        qkv = graph.constant(layer["qkv"].reshape(WIDTH, 3 * WIDTH))
        parts = graph.ops(
            "Split",
            graph.op("MatMul", _normalized(graph, hidden), qkv),
            count=3,
            axis=-1,
            num_outputs=3,
        )
        query, key, value = (graph.op("Reshape", part, heads) for part in parts)
        mixed = _attention(graph, query, key, value, depth, None)
        out = graph.constant(layer["out"].reshape(WIDTH, WIDTH))
        hidden = graph.op("Add", hidden, graph.op("MatMul", mixed, out))
        inner = graph.op("MatMul", _normalized(graph, hidden), graph.constant(layer["mlp_in"]))
        inner = graph.op("Gelu", inner, approximate="tanh")
        hidden = graph.op(
            "Add", hidden, graph.op("MatMul", inner, graph.constant(layer["mlp_out"]))
        )
    vectors = _normalized(graph, hidden)
    mean = graph.op("ReduceMean", vectors, graph.shape(1), keepdims=0)
    text = graph.op("Div", mean, graph.op("ReduceL2", mean, graph.shape(1), keepdims=1))
    return graph, {"tokens": (_types()[1], ["batch", "seq"])}, [text, vectors]


def _decode() -> Built:
    """lm.model:decode."""
    import jax

    from lm.model import HEAD_WIDTH, HEADS, LAYERS, MAX_LENGTH, ROTATIONS, init

    number, whole = _types()
    params: Any = jax.tree.map(np.asarray, init())
    graph = Graph({})
    shape = ["batch", MAX_LENGTH, HEADS, HEAD_WIDTH]
    inputs: dict[str, tuple[int, list[Any]]] = {
        f"{part}_{layer}": (number, shape) for layer in range(LAYERS) for part in ("key", "value")
    }
    inputs |= {"token": (whole, ["batch"]), "position": (whole, [])}
    heads = graph.shape(0, 0, HEADS, HEAD_WIDTH)
    places = np.arange(MAX_LENGTH, dtype=np.int32)
    now = graph.op("Equal", graph.constant(places[None, :, None, None]), "position")
    seen = graph.op("LessOrEqual", graph.constant(places[None, None, None, :]), "position")
    cosine, sine = (
        graph.op("Gather", graph.constant(ROTATIONS[:, part]), "position") for part in (0, 1)
    )

    def normalize(array: str, scale: Any) -> str:
        return graph.op("Mul", _normalized(graph, array), graph.constant(scale))

    def rotate(array: str) -> str:
        first, second = graph.ops("Split", array, count=2, axis=-1, num_outputs=2)
        real = graph.op("Sub", graph.op("Mul", first, cosine), graph.op("Mul", second, sine))
        imaginary = graph.op("Add", graph.op("Mul", first, sine), graph.op("Mul", second, cosine))
        return graph.op("Concat", real, imaginary, axis=-1)

    column = graph.op("Unsqueeze", "token", graph.shape(1))
    hidden, cache = graph.op("Gather", graph.constant(params["embedding"]), column), []
    for number_, layer in enumerate(params["layers"].values()):
        qkv = graph.op(
            "MatMul", normalize(hidden, layer["attention_norm"]), graph.constant(layer["qkv"])
        )
        parts = graph.ops("Split", qkv, count=3, axis=-1, num_outputs=3)
        query, key, value = (graph.op("Reshape", part, heads) for part in parts)
        key = graph.op("Where", now, rotate(key), f"key_{number_}")
        value = graph.op("Where", now, value, f"value_{number_}")
        cache += [key, value]
        mixed = _attention(graph, rotate(query), key, value, HEAD_WIDTH, seen)
        added = graph.op("MatMul", mixed, graph.constant(layer["attention_out"]))
        hidden = graph.op("Add", hidden, added)
        inner = graph.op(
            "MatMul", normalize(hidden, layer["mlp_norm"]), graph.constant(layer["mlp_in"])
        )
        inner = graph.op("Gelu", inner, approximate="tanh")
        hidden = graph.op(
            "Add", hidden, graph.op("MatMul", inner, graph.constant(layer["mlp_out"]))
        )
    last = graph.op("Squeeze", hidden, graph.shape(1))
    logits = graph.op(
        "MatMul", normalize(last, params["final_norm"]), graph.constant(params["unembedding"])
    )
    return graph, inputs, [logits, *cache]


BUILD: dict[str, Callable[[], Built]] = {"mlp": _mlp, "encoder": _encoder, "decode": _decode}
assert BUILD.keys() == PROGRAMS.keys()
