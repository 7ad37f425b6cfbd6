"""One encoder block, its batch over the axis `data` of the mesh and its width over `model`.

Attention leaves the cutting to XLA, which is told where the heads are; the feed-forward part says
itself what each device computes, and adds up the parts with an all-reduce.
"""

from __future__ import annotations

from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

WIDTH = 64
HEADS = 4
HIDDEN = 256
EPSILON = 1e-6
SEED = 0


class Attention(TypedDict):
    """Projections: `query`, `key` and `value` are float32[WIDTH, HEADS, WIDTH / HEADS]."""

    query: jax.Array
    key: jax.Array
    value: jax.Array
    out: jax.Array


class FeedForward(TypedDict):
    """Two layers: `up` is float32[WIDTH, HIDDEN], `down` float32[HIDDEN, WIDTH]."""

    up: jax.Array
    down: jax.Array


class Params(TypedDict):
    """The parameters; `norms`, float32[2, WIDTH], has the scales before both parts."""

    attention: Attention
    feed_forward: FeedForward
    norms: jax.Array


def init() -> Params:
    """Return the parameters of an untrained block, always the same."""
    random = np.random.default_rng(SEED)

    def matrix(*shape: int, inputs: int) -> jax.Array:
        return jnp.asarray(random.standard_normal(shape, np.float32) * inputs**-0.5)

    head = (WIDTH, HEADS, WIDTH // HEADS)
    return {
        "attention": {
            "query": matrix(*head, inputs=WIDTH),
            "key": matrix(*head, inputs=WIDTH),
            "value": matrix(*head, inputs=WIDTH),
            "out": matrix(HEADS, WIDTH // HEADS, WIDTH, inputs=WIDTH),
        },
        "feed_forward": {
            "up": matrix(WIDTH, HIDDEN, inputs=WIDTH),
            "down": matrix(HIDDEN, WIDTH, inputs=HIDDEN),
        },
        "norms": jnp.ones((2, WIDTH), jnp.float32),
    }


def encode(params: Params, tokens: jax.Array) -> dict[str, jax.Array]:
    """tokens: float32[batch, seq, WIDTH], embedded. Returns them encoded, and their mean over seq,
    float32[batch, WIDTH].
    """
    hidden = tokens + _attend(params["attention"], _normalized(tokens, params["norms"][0]))
    fed = _feed(params["feed_forward"], _normalized(hidden, params["norms"][1]))
    encoded = hidden + fed
    return {"encoded": encoded, "pooled": jnp.mean(encoded, axis=1)}


def _normalized(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPSILON) * scale


def _attend(params: Attention, x: jax.Array) -> jax.Array:
    def heads(weights: jax.Array) -> jax.Array:
        projected = jnp.einsum("bsw,whd->bshd", x, weights)
        return jax.lax.with_sharding_constraint(projected, P("data", None, "model", None))

    query, key, value = heads(params["query"]), heads(params["key"]), heads(params["value"])
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * (WIDTH // HEADS) ** -0.5
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
    return jnp.einsum("bshd,hdw->bsw", mixed, params["out"])


def _feed(params: FeedForward, x: jax.Array) -> jax.Array:
    def part(up: jax.Array, down: jax.Array, own: jax.Array) -> jax.Array:
        """Return the contribution of one device's hidden units."""
        return jax.lax.psum(jax.nn.gelu(own @ up) @ down, "model")

    spread = jax.shard_map(
        part,
        in_specs=(P(None, "model"), P("model", None), P("data", None, None)),
        out_specs=P("data", None, None),
    )
    fed: jax.Array = spread(params["up"], params["down"], x)
    return fed
