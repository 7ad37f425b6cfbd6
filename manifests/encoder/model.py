"""A transformer over bytes: `encode` gives one vector for each text and one for each token.

Texts of a batch are as long as one another; the loader pads them to the next profile, and says by
the mask which tokens are real.
"""

from __future__ import annotations

from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY = 256
LAYERS = 2
HEADS = 4
WIDTH = 64
SEED = 0


class Layer(TypedDict):
    """Weights of one block, float32. qkv: [WIDTH, 3, HEADS, WIDTH / HEADS].  out: [HEADS,
    WIDTH / HEADS, WIDTH].  mlp_in: [WIDTH, 4 * WIDTH].  mlp_out: [4 * WIDTH, WIDTH].
    """

    qkv: jax.Array
    out: jax.Array
    mlp_in: jax.Array
    mlp_out: jax.Array


class Params(TypedDict):
    """The parameters; `embedding` is float32[VOCABULARY, WIDTH]."""

    embedding: jax.Array
    layers: list[Layer]


class Encoded(TypedDict):
    """Unit vectors of texts, float32[batch, WIDTH], and of tokens, float32[batch, seq, WIDTH]."""

    text: jax.Array
    tokens: jax.Array


def init() -> Params:
    """Return the weights of an untrained model, always the same."""
    random = np.random.default_rng(SEED)

    def normal(*shape: int, inputs: int) -> jax.Array:
        return jnp.asarray(random.standard_normal(shape, np.float32) / inputs**0.5)

    head = WIDTH // HEADS
    return {
        "embedding": normal(VOCABULARY, WIDTH, inputs=1),
        "layers": [
            {
                "qkv": normal(WIDTH, 3, HEADS, head, inputs=WIDTH),
                "out": normal(HEADS, head, WIDTH, inputs=WIDTH),
                "mlp_in": normal(WIDTH, 4 * WIDTH, inputs=WIDTH),
                "mlp_out": normal(4 * WIDTH, WIDTH, inputs=4 * WIDTH),
            }
            for _ in range(LAYERS)
        ],
    }


def encode(params: Params, tokens: jax.Array, mask: jax.Array) -> Encoded:
    """Encode bytes, int32[batch, seq]; `mask` is true where a token is real."""
    hidden = params["embedding"][tokens] + _positions(tokens.shape[1])
    for layer in params["layers"]:
        # Nothing that is not real may be looked at: its score is out before the softmax.
        query, key, value = jnp.moveaxis(
            jnp.einsum("bsw,wnhd->bsnhd", _normalized(hidden), layer["qkv"]), 2, 0
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / key.shape[-1] ** 0.5
        attention = jax.nn.softmax(jnp.where(mask[:, None, None, :], scores, -jnp.inf))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", attention, value)
        hidden = hidden + jnp.einsum("bqhd,hdw->bqw", mixed, layer["out"])
        inner = jax.nn.gelu(_normalized(hidden) @ layer["mlp_in"])
        hidden = hidden + inner @ layer["mlp_out"]
    vectors = _normalized(hidden)
    real = mask[:, :, None]
    mean = jnp.where(real, vectors, 0).sum(axis=1) / real.sum(axis=1)
    return {"text": mean / jnp.linalg.norm(mean, axis=1, keepdims=True), "tokens": vectors}


def _normalized(hidden: jax.Array) -> jax.Array:
    """Divide float32[..., WIDTH] by its root mean square."""
    return hidden * jax.lax.rsqrt(jnp.mean(hidden**2, axis=-1, keepdims=True) + 1e-6)


def _positions(seq: int) -> jax.Array:
    """Return sinusoids, float32[seq, WIDTH] (Vaswani et al. 2017, section 3.5)."""
    frequencies = jnp.exp(-jnp.log(1e4) * jnp.arange(WIDTH // 2) / (WIDTH // 2))
    angles = jnp.arange(seq)[:, None] * frequencies
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)
