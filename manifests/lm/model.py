"""The transformer: `prefill` reads a prompt, `decode` continues it one token at a time."""

from __future__ import annotations

from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY = 256
LAYERS = 4
HEADS = 4
HEAD_WIDTH = 32
WIDTH = HEADS * HEAD_WIDTH
MAX_LENGTH = 128
ROTARY_BASE = 10_000.0
SEED = 0

ANGLES = np.outer(
    np.arange(MAX_LENGTH), ROTARY_BASE ** -np.linspace(0.0, 1.0, HEAD_WIDTH // 2, endpoint=False)
)
ROTATIONS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)
"""Cosines and sines that rotate pairs of features: float32[MAX_LENGTH, 2, HEAD_WIDTH / 2]."""


class Layer(TypedDict):
    """Weights of one block, float32. attention_norm, mlp_norm: [WIDTH].  qkv: [WIDTH, 3 * WIDTH].
    attention_out: [WIDTH, WIDTH].  mlp_in: [WIDTH, 4 * WIDTH].  mlp_out: [4 * WIDTH, WIDTH].
    """

    attention_norm: jax.Array
    qkv: jax.Array
    attention_out: jax.Array
    mlp_norm: jax.Array
    mlp_in: jax.Array
    mlp_out: jax.Array


class Params(TypedDict):
    """embedding: float32[VOCABULARY, WIDTH].  layers: by number.  final_norm: float32[WIDTH].
    unembedding: float32[WIDTH, VOCABULARY].
    """

    embedding: jax.Array
    layers: dict[str, Layer]
    final_norm: jax.Array
    unembedding: jax.Array


class LayerCache(TypedDict):
    """Keys and values of a layer for each position.

    Both are float32[batch, MAX_LENGTH, HEADS, HEAD_WIDTH], zero where no token has been yet.
    """

    key: jax.Array
    value: jax.Array


type Cache = list[LayerCache]


def init() -> Params:
    """Return the weights of an untrained model, always the same."""
    random = np.random.default_rng(SEED)

    def normal(inputs: int, outputs: int) -> jax.Array:
        return jnp.asarray(random.standard_normal((inputs, outputs), np.float32) / inputs**0.5)

    def init_layer() -> Layer:
        return {
            "attention_norm": jnp.ones(WIDTH),
            "qkv": normal(WIDTH, 3 * WIDTH),
            "attention_out": normal(WIDTH, WIDTH),
            "mlp_norm": jnp.ones(WIDTH),
            "mlp_in": normal(WIDTH, 4 * WIDTH),
            "mlp_out": normal(4 * WIDTH, WIDTH),
        }

    return {
        "embedding": jnp.asarray(random.standard_normal((VOCABULARY, WIDTH), np.float32)),
        "layers": {str(index): init_layer() for index in range(LAYERS)},
        "final_norm": jnp.ones(WIDTH),
        "unembedding": normal(WIDTH, VOCABULARY),
    }


def empty_cache(batch: int) -> Cache:
    """Return the cache before the first token."""
    shape = (batch, MAX_LENGTH, HEADS, HEAD_WIDTH)
    return [{"key": jnp.zeros(shape), "value": jnp.zeros(shape)} for _ in range(LAYERS)]


def prefill(params: Params, tokens: jax.Array) -> tuple[jax.Array, Cache]:
    """Read a prompt. tokens: int32[batch, seq], seq at most MAX_LENGTH.

    Returns the logits of the token after it, float32[batch, VOCABULARY], and the filled cache.
    """
    batch, seq = tokens.shape
    hidden, cache = _advance(params, empty_cache(batch), tokens, jnp.arange(seq))
    return unembed(params, hidden[:, -1]), cache


def decode(
    params: Params, cache: Cache, token: jax.Array, position: jax.Array
) -> tuple[jax.Array, Cache]:
    """Read one more token. token: int32[batch]; position: int32[], its place, below MAX_LENGTH.

    Returns the logits of the token after it, float32[batch, VOCABULARY], and the new cache.
    """
    hidden, cache = _advance(params, cache, token[:, None], position[None])
    return unembed(params, hidden[:, -1]), cache


def _advance(
    params: Params, cache: Cache, tokens: jax.Array, positions: jax.Array
) -> tuple[jax.Array, Cache]:
    """Read tokens at consecutive positions. tokens: int32[batch, n]; positions: int32[n].

    Returns float32[batch, n, WIDTH] and the new cache.
    """
    hidden = params["embedding"][tokens]
    visible = jnp.arange(MAX_LENGTH) <= positions[:, None]
    new_cache: Cache = []
    for layer, past in zip(params["layers"].values(), cache, strict=True):
        query, key, value = project(layer, hidden, positions)
        now: LayerCache = {
            "key": jax.lax.dynamic_update_slice_in_dim(past["key"], key, positions[0], axis=1),
            "value": jax.lax.dynamic_update_slice_in_dim(
                past["value"], value, positions[0], axis=1
            ),
        }
        new_cache.append(now)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, now["key"]) / HEAD_WIDTH**0.5
        attention = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", attention, now["value"])
        hidden = finish(layer, hidden, mixed)
    return hidden, new_cache


def project(
    layer: Layer, hidden: jax.Array, positions: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Query, key and value, float32[batch, n, HEADS, HEAD_WIDTH] each.

    hidden: float32[batch, n, WIDTH]; positions: int32[n].
    """
    qkv = normalize(hidden, layer["attention_norm"]) @ layer["qkv"]
    query, key, value = jnp.moveaxis(qkv.reshape(*qkv.shape[:-1], 3, HEADS, HEAD_WIDTH), -3, 0)
    return rotate(query, positions), rotate(key, positions), value


def finish(layer: Layer, hidden: jax.Array, mixed: jax.Array) -> jax.Array:
    """The rest of a block after attention. hidden: float32[batch, n, WIDTH]; mixed:
    float32[batch, n, HEADS, HEAD_WIDTH]; returns float32[batch, n, WIDTH].
    """
    hidden = hidden + mixed.reshape(hidden.shape) @ layer["attention_out"]
    inner = jax.nn.gelu(normalize(hidden, layer["mlp_norm"]) @ layer["mlp_in"])
    return hidden + inner @ layer["mlp_out"]


def rotate(features: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary position embedding. features: float32[batch, n, HEADS, HEAD_WIDTH]; positions:
    int32[n].
    """
    cosine, sine = jnp.moveaxis(jnp.asarray(ROTATIONS)[positions][:, :, None, :], 1, 0)
    first, second = jnp.split(features, 2, axis=-1)
    return jnp.concatenate(
        [first * cosine - second * sine, first * sine + second * cosine], axis=-1
    )


def normalize(hidden: jax.Array, scale: jax.Array) -> jax.Array:
    """Divide float32[..., WIDTH] by its root mean square and multiply by `scale`."""
    return hidden * jax.lax.rsqrt(jnp.mean(hidden**2, axis=-1, keepdims=True) + 1e-6) * scale


def unembed(params: Params, hidden: jax.Array) -> jax.Array:
    """Return the logits, float32[..., VOCABULARY], of float32[..., WIDTH]."""
    return normalize(hidden, params["final_norm"]) @ params["unembedding"]
