"""An encoder of BERT-base's size with random weights: 12 layers, 768 wide, 12 heads."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, HEADS, INNER, VOCABULARY, LENGTH_MAX = 12, 768, 12, 3072, 30522, 512
EPSILON = 1e-5
SEED = 0


def init() -> dict[str, np.ndarray]:
    """The weights by name, always the same."""
    random = np.random.default_rng(SEED)

    def matrix(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32) * np.float32(0.02)

    weights = {"tokens": matrix(VOCABULARY, WIDTH), "places": matrix(LENGTH_MAX, WIDTH)}
    sizes = {"qkv": (WIDTH, 3 * WIDTH), "mixed": (WIDTH, WIDTH)}
    sizes |= {"up": (WIDTH, INNER), "down": (INNER, WIDTH)}
    for layer in range(LAYERS):
        for name, (rows, columns) in sizes.items():
            weights[f"{name}_{layer:02}"] = matrix(rows, columns)
            weights[f"{name}_bias_{layer:02}"] = matrix(columns)
    for name in (
        "first",
        *(f"{part}_{n:02}" for part in ("middle", "last") for n in range(LAYERS)),
    ):
        weights[f"scale_{name}"] = 1 + matrix(WIDTH)
        weights[f"offset_{name}"] = matrix(WIDTH)
    return weights


def run(params: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
    """tokens: int32[batch, seq]. Returns float32[batch, seq, 768]."""
    batch, seq = tokens.shape

    def dense(hidden: jax.Array, name: str, layer: int) -> jax.Array:
        return hidden @ params[f"{name}_{layer:02}"] + params[f"{name}_bias_{layer:02}"]

    def normalize(hidden: jax.Array, name: str) -> jax.Array:
        mean = hidden.mean(-1, keepdims=True)
        variance = jnp.square(hidden - mean).mean(-1, keepdims=True)
        normal = (hidden - mean) * jax.lax.rsqrt(variance + EPSILON)
        return normal * params[f"scale_{name}"] + params[f"offset_{name}"]

    hidden = normalize(params["tokens"][tokens] + params["places"][:seq], "first")
    for layer in range(LAYERS):
        qkv = dense(hidden, "qkv", layer).reshape(batch, seq, 3, HEADS, WIDTH // HEADS)
        query, key, value = (qkv[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
        scores = query @ key.transpose(0, 1, 3, 2) * (WIDTH // HEADS) ** -0.5
        mixed = (jax.nn.softmax(scores) @ value).transpose(0, 2, 1, 3).reshape(batch, seq, WIDTH)
        hidden = normalize(hidden + dense(mixed, "mixed", layer), f"middle_{layer:02}")
        inner = jax.nn.gelu(dense(hidden, "up", layer), approximate=False)
        hidden = normalize(hidden + dense(inner, "down", layer), f"last_{layer:02}")
    return hidden
