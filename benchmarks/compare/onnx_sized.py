"""The models of `cases.SIZED` as ONNX graphs, as exporters write them, from our own weights."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.compare.onnx_graph import Graph

EPSILON = 1e-5
HEADS, LAYERS, WIDTH = 12, 12, 768
DEPTHS = (3, 4, 6, 3)


def decode(graph: Graph, _: Sequence[int]) -> list[str]:
    """decode:run."""
    hidden = "input"
    for name in sorted(graph.weights):
        hidden = graph.op("Tanh", graph.op("MatMul", hidden, graph.weight(name)))
    return [hidden]


def encoder(graph: Graph, shape: Sequence[int]) -> list[str]:
    """encoder:run."""
    batch, seq = shape
    heads, flat = graph.shape(batch, seq, HEADS, -1), graph.shape(batch, seq, WIDTH)

    def dense(array: str, name: str, layer: int) -> str:
        kernel = graph.weight(f"{name}_{layer:02}")
        return graph.op(
            "Add", graph.op("MatMul", array, kernel), graph.weight(f"{name}_bias_{layer:02}")
        )

    def normalize(array: str, name: str) -> str:
        parts = (graph.weight(f"{part}_{name}") for part in ("scale", "offset"))
        return graph.op("LayerNormalization", array, *parts, axis=-1, epsilon=EPSILON)

    tokens = graph.op("Gather", graph.weight("tokens"), "input")
    places = graph.constant(graph.weights["places"][:seq], "places")
    hidden = normalize(graph.op("Add", tokens, places), "first")
    for layer in range(LAYERS):
        parts = graph.ops("Split", dense(hidden, "qkv", layer), count=3, axis=-1, num_outputs=3)
        query, key, value = (graph.op("Reshape", part, heads) for part in parts)
        query, value = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (query, value))
        key = graph.op("Transpose", key, perm=[0, 2, 3, 1])
        scores = graph.scaled(graph.op("MatMul", query, key), (WIDTH // HEADS) ** -0.5)
        mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
        mixed = graph.op("Reshape", graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), flat)
        added = graph.op("Add", hidden, dense(mixed, "mixed", layer))
        hidden = normalize(added, f"middle_{layer:02}")
        inner = graph.op("Gelu", dense(hidden, "up", layer))
        added = graph.op("Add", hidden, dense(inner, "down", layer))
        hidden = normalize(added, f"last_{layer:02}")
    return [hidden]


def resnet(graph: Graph, _: Sequence[int]) -> list[str]:
    """resnet:run, in the layout that ONNX knows (channels first)."""

    def convolution(array: str, name: str, stride: int = 1) -> str:
        weight = graph.weights[f"{name}_kernel"].transpose(3, 2, 0, 1)
        size, edge = weight.shape[-1], (weight.shape[-1] - 1) // 2
        kernel = graph.constant(weight, f"{name}_kernel")
        result = graph.op(
            "Conv",
            array,
            kernel,
            pads=[edge] * 4,
            strides=[stride, stride],
            kernel_shape=[size, size],
        )
        parts = (graph.weight(f"{name}_{p}") for p in ("scale", "offset", "mean", "variance"))
        return graph.op("BatchNormalization", result, *parts, epsilon=EPSILON)

    hidden = graph.op("Transpose", "input", perm=[0, 3, 1, 2])
    hidden = graph.op("Relu", convolution(hidden, "stem", 2))
    hidden = graph.op("MaxPool", hidden, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, depth in enumerate(DEPTHS):
        for index in range(depth):
            name, stride = f"block{stage}{index}", 2 if stage and not index else 1
            inner = graph.op("Relu", convolution(hidden, f"{name}_one"))
            inner = graph.op("Relu", convolution(inner, f"{name}_two", stride))
            inner = convolution(inner, f"{name}_three")
            if f"{name}_beside_kernel" in graph.weights:
                hidden = convolution(hidden, f"{name}_beside", stride)
            hidden = graph.op("Relu", graph.op("Add", hidden, inner))
    pooled = graph.op("ReduceMean", hidden, graph.shape(2, 3), keepdims=0)
    logits = graph.op("MatMul", pooled, graph.weight("head"))
    return [graph.op("Softmax", graph.op("Add", logits, graph.weight("head_bias")), axis=-1)]
