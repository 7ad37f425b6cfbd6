"""A ResNet-50 with random weights: 25 million of them, images of 224 x 224."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

DEPTHS, WIDTHS, CLASSES = (3, 4, 6, 3), (64, 128, 256, 512), 1000
EPSILON = 1e-5
SEED = 0


def blocks() -> Iterator[tuple[str, int, int, int]]:
    """Name, channels in, channels within (a fourth of those out) and stride of each block."""
    before = 64
    for stage, (depth, width) in enumerate(zip(DEPTHS, WIDTHS, strict=True)):
        for index in range(depth):
            yield f"block{stage}{index}", before, width, 2 if stage and not index else 1
            before = 4 * width


def init() -> dict[str, np.ndarray]:
    """The weights by name, always the same."""
    random = np.random.default_rng(SEED)
    weights: dict[str, np.ndarray] = {}

    def convolution(name: str, size: int, before: int, after: int, gain: float = 1.0) -> None:
        kernel = random.standard_normal((size, size, before, after), np.float32)
        weights[f"{name}_kernel"] = kernel * np.float32((2 / (size * size * before)) ** 0.5)
        weights[f"{name}_scale"] = np.float32(gain) * random.uniform(0.8, 1.2, after).astype("f4")
        for part in ("offset", "mean"):
            weights[f"{name}_{part}"] = random.standard_normal(after, np.float32) * np.float32(0.1)
        weights[f"{name}_variance"] = random.uniform(0.8, 1.2, after).astype("f4")

    convolution("stem", 7, 3, 64)
    for name, before, width, _ in blocks():
        convolution(f"{name}_one", 1, before, width)
        convolution(f"{name}_two", 3, width, width)
        convolution(f"{name}_three", 1, width, 4 * width, 0.2)
        if before != 4 * width:
            convolution(f"{name}_beside", 1, before, 4 * width)
    before = 4 * WIDTHS[-1]
    weights["head"] = random.standard_normal((before, CLASSES), np.float32) * np.float32(0.02)
    weights["head_bias"] = np.zeros(CLASSES, np.float32)
    return weights


def run(params: dict[str, jax.Array], image: jax.Array) -> jax.Array:
    """image: float32[batch, 224, 224, 3]. Returns probabilities, float32[batch, 1000]."""

    def convolution(hidden: jax.Array, name: str, stride: int = 1) -> jax.Array:
        kernel = params[f"{name}_kernel"]
        edge = (kernel.shape[0] - 1) // 2
        result = jax.lax.conv_general_dilated(
            hidden,
            kernel,
            (stride, stride),
            ((edge, edge), (edge, edge)),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        factor = params[f"{name}_scale"] * jax.lax.rsqrt(params[f"{name}_variance"] + EPSILON)
        return (result - params[f"{name}_mean"]) * factor + params[f"{name}_offset"]

    hidden = jax.nn.relu(convolution(image, "stem", 2))
    edges = ((0, 0), (1, 1), (1, 1), (0, 0))
    hidden = jax.lax.reduce_window(hidden, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), edges)
    for name, before, width, stride in blocks():
        inner = jax.nn.relu(convolution(hidden, f"{name}_one"))
        inner = jax.nn.relu(convolution(inner, f"{name}_two", stride))
        inner = convolution(inner, f"{name}_three")
        if before != 4 * width:
            hidden = convolution(hidden, f"{name}_beside", stride)
        hidden = jax.nn.relu(hidden + inner)
    return jax.nn.softmax(hidden.mean((1, 2)) @ params["head"] + params["head_bias"])
