"""The models as ONNX graphs, operation by operation, from our own weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.compare.onnx_graph import Graph
from benchmarks.compare.onnx_sized import decode, encoder, resnet

EPSILON = 1e-5
MAX_LENGTH = 128
HEADS = 4
LAYERS = 4
ROTARY_BASE = 10_000.0


def write(case: Path, file: Path) -> Path:
    """Write the case's graph."""
    with np.load(case / "weights.npz") as weights:
        graph = Graph({name: weights[name] for name in weights.files})
    given = np.load(case / "input.npy")
    files = sorted(case.glob("expected-*.npy"), key=lambda path: int(path.stem.partition("-")[2]))
    expected = [np.load(path) for path in files]
    build = {"mlp": mlp, "vision": vision, "transformer": transformer, "trivial": trivial}
    build |= {"encoder": encoder, "resnet": resnet, "decode": decode}
    outputs = build[case.name.partition("-")[0]](graph, given.shape)
    return graph.save(file, given, outputs, expected)


def trivial(graph: Graph, _: Sequence[int]) -> list[str]:
    return [graph.op("Add", "input", graph.scalar(1))]


def _classified(graph: Graph, logits: str) -> list[str]:
    label = graph.op("ArgMax", logits, axis=-1, keepdims=0)
    return [graph.op("Cast", label, to=6), graph.op("Softmax", logits, axis=-1)]


def mlp(graph: Graph, _: Sequence[int]) -> list[str]:
    """digits.model:predict."""

    def dense(array: str, name: str) -> str:
        kernel, bias = graph.weight(f"{name}/kernel"), graph.weight(f"{name}/bias")
        return graph.op("Add", graph.op("MatMul", array, kernel), bias)

    hidden = graph.op("Div", "input", graph.scalar(16))
    for name in ("hidden_1", "hidden_2"):
        hidden = graph.op("Relu", dense(hidden, name))
    return _classified(graph, dense(hidden, "output"))


def vision(graph: Graph, _: Sequence[int]) -> list[str]:
    """vision.model:predict, in the layout that ONNX knows (channels first)."""

    def convolution(array: str, name: str, stride: int = 1) -> str:
        kernel = graph.constant(graph.weights[f"{name}/kernel"].transpose(3, 2, 0, 1), name)
        size = graph.weights[f"{name}/kernel"].shape[0]
        return graph.op(
            "Conv",
            array,
            kernel,
            auto_pad="SAME_UPPER",
            strides=[stride, stride],
            kernel_shape=[size, size],
        )

    def norm(array: str, name: str) -> str:
        parts = [graph.weight(f"{name}/{p}") for p in ("scale", "offset", "mean", "variance")]
        return graph.op("BatchNormalization", array, *parts, epsilon=EPSILON)

    hidden = graph.op("Div", graph.op("Sub", "input", graph.scalar(0.5)), graph.scalar(0.25))
    hidden = graph.op("Transpose", hidden, perm=[0, 3, 1, 2])
    hidden = graph.op("Relu", norm(convolution(hidden, "stem"), "stem_norm"))
    for block in range(9):
        name = f"blocks/{block}"
        stride = 2 if block in (3, 6) else 1
        inner = convolution(hidden, f"{name}/first", stride)
        inner = graph.op("Relu", norm(inner, f"{name}/first_norm"))
        added = norm(convolution(inner, f"{name}/second"), f"{name}/second_norm")
        if f"{name}/shortcut/kernel" in graph.weights:
            hidden = convolution(hidden, f"{name}/shortcut", stride)
        hidden = graph.op("Relu", graph.op("Add", hidden, added))
    pooled = graph.op("ReduceMean", hidden, graph.shape(2, 3), keepdims=0)
    head = graph.constant(graph.weights["head/weight"].T, "head/weight")
    logits = graph.op("Add", graph.op("MatMul", pooled, head), graph.weight("head/bias"))
    return _classified(graph, logits)


def transformer(graph: Graph, shape: Sequence[int]) -> list[str]:
    """lm.model:prefill: logits and the cache of every layer, padded to MAX_LENGTH."""
    batch, seq = shape
    width = graph.weights["final_norm"].shape[0]
    depth = width // HEADS
    frequencies = ROTARY_BASE ** -np.linspace(0.0, 1.0, depth // 2, endpoint=False)
    angles = np.outer(np.arange(seq), frequencies)[:, None, :]
    cosine = graph.constant(np.cos(angles).astype(np.float32))
    sine = graph.constant(np.sin(angles).astype(np.float32))
    visible = graph.constant(np.arange(MAX_LENGTH) <= np.arange(seq)[:, None])
    minus_infinity = graph.scalar(-np.inf)
    pads = graph.shape(0, 0, 0, 0, 0, MAX_LENGTH - seq, 0, 0)
    heads, flat = graph.shape(batch, seq, HEADS, depth), graph.shape(batch, seq, width)

    def normalize(array: str, name: str) -> str:
        mean = graph.op("ReduceMean", graph.op("Mul", array, array), graph.shape(-1), keepdims=1)
        root = graph.op("Sqrt", graph.op("Add", mean, graph.scalar(1e-6)))
        return graph.op("Mul", graph.op("Div", array, root), graph.weight(name))

    def rotate(array: str) -> str:
        first, second = graph.ops("Split", array, count=2, axis=-1, num_outputs=2)
        real = graph.op("Sub", graph.op("Mul", first, cosine), graph.op("Mul", second, sine))
        imaginary = graph.op("Add", graph.op("Mul", first, sine), graph.op("Mul", second, cosine))
        return graph.op("Concat", real, imaginary, axis=-1)

    hidden = graph.op("Gather", graph.weight("embedding"), "input")
    cache = []
    for layer in range(LAYERS):
        name = f"layers/{layer}"
        normed = normalize(hidden, f"{name}/attention_norm")
        qkv = graph.op("MatMul", normed, graph.weight(f"{name}/qkv"))
        parts = graph.ops("Split", qkv, count=3, axis=-1, num_outputs=3)
        query, key, value = (graph.op("Reshape", part, heads) for part in parts)
        key, value = (graph.op("Pad", part, pads) for part in (rotate(key), value))
        cache += [key, value]
        scores = graph.op(
            "MatMul",
            graph.op("Transpose", rotate(query), perm=[0, 2, 1, 3]),
            graph.op("Transpose", key, perm=[0, 2, 3, 1]),
        )
        masked = graph.op("Where", visible, graph.scaled(scores, depth**-0.5), minus_infinity)
        values = graph.op("Transpose", value, perm=[0, 2, 1, 3])
        mixed = graph.op("MatMul", graph.op("Softmax", masked, axis=-1), values)
        mixed = graph.op("Reshape", graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), flat)
        added = graph.op("MatMul", mixed, graph.weight(f"{name}/attention_out"))
        hidden = graph.op("Add", hidden, added)
        inner = graph.op(
            "MatMul", normalize(hidden, f"{name}/mlp_norm"), graph.weight(f"{name}/mlp_in")
        )
        inner = graph.op("Gelu", inner, approximate="tanh")
        added = graph.op("MatMul", inner, graph.weight(f"{name}/mlp_out"))
        hidden = graph.op("Add", hidden, added)
    last = graph.op("Gather", hidden, graph.constant(np.int64(seq - 1)), axis=1)
    normed = normalize(last, "final_norm")
    return [graph.op("MatMul", normed, graph.weight("unembedding")), *cache]
