"""Programs of the golden bundles `trees` and `sizes`."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Moments(NamedTuple):
    """A named tuple as jax takes it by itself."""

    mean: Any
    square: Any


@jax.tree_util.register_dataclass
@dataclass
class Model:
    """A registered class with named children."""

    weight: Any
    bias: Any


@dataclass
class Cache:
    """A class that is registered without names."""

    keys: Any
    values: Any


jax.tree_util.register_pytree_node(
    Cache, lambda cache: ((cache.keys, cache.values), None), lambda _, both: Cache(*both)
)


def new_state() -> dict[str, Any]:
    """A state of every kind of node, in float32, int32 and bool."""
    return {
        "model": Model(jnp.linspace(-1, 1, 6).reshape(2, 3), jnp.zeros(3)),
        "moments": Moments(jnp.ones((2, 3)), None),
        "caches": [Cache(jnp.arange(4), jnp.ones(4, bool)), (jnp.float32(2),)],
        "empty": {},
    }


def step(state: dict[str, Any], x: jax.Array, /, key: jax.Array, *, rate: float) -> Any:
    """A step whose result has the structure of the state, and a named tuple beside it."""
    model, (cache, (scale,)) = state["model"], state["caches"]
    noise = jax.random.normal(key, (3,))
    y = jnp.tanh(x @ model.weight + model.bias) * scale + rate * noise
    new = {
        **state,
        "model": Model(model.weight + rate * x.T @ y, model.bias + y.sum(0)),
        "caches": [Cache(cache.keys[::-1], ~cache.values), (scale * 0.5,)],
    }
    return new, Moments(y, y * y)


def attend(table: jax.Array, tokens: jax.Array, mask: jax.Array) -> jax.Array:
    """A weighted mean over the real positions: sizes between profiles may be padded."""
    rows = table[tokens]
    weights = jax.nn.softmax(jnp.where(mask, rows.sum(-1), -1e30), axis=-1)
    return jnp.where(mask[..., None], rows * weights[..., None], 0).sum(1)


def table() -> jax.Array:
    """Weights of `attend`."""
    return jnp.sin(jnp.arange(32.0).reshape(8, 4))


def double(x: jax.Array) -> jax.Array:
    """Sizes between profiles may be compiled in production."""
    return 2 * x + 1


def new_layers() -> dict[int, Any]:
    """A state with integer keys, in float32, and a Python number."""
    return {10: {"k": jnp.zeros(2)}, 2: {"k": jnp.ones(2)}, -1: 3}


def grow(layers: dict[int, Any], x: jax.Array) -> dict[int, Any]:
    """The state with x added to its layers, and the number counted up."""
    grown = {index: {"k": layers[index]["k"] * index + x} for index in (10, 2)}
    return {**grown, -1: layers[-1] + 1}
