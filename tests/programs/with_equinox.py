"""Equinox: modules as weights, as arguments and as results, and a network with state."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

ENVIRONMENT = {"EQX_ON_ERROR": "nan"}

MANIFESTS = {
    "networks": """
        [weights.network]
        init = "with_equinox:network_arrays"

        [entry_points.attend]
        function = "with_equinox:attend"
        bind = { network = "network" }
        inputs.words = { shape = [7, 12], dtype = "float32" }

        [entry_points.descend]
        function = "with_equinox:descend"
        inputs.mlp = { like = "with_equinox:mlp_arrays" }
        inputs.x = { shape = [9, 4], dtype = "float32" }

        [entry_points.normalize]
        function = "with_equinox:normalize"
        inputs.state = { like = "with_equinox:norm_state" }
        inputs.x = { shape = [9, 4], dtype = "float32" }
    """
}

STATES = {"descend": {"mlp": 0}, "normalize": {"state": 1}}


class Network(eqx.Module):
    rotary: eqx.nn.RotaryPositionalEmbedding
    attention: eqx.nn.MultiheadAttention
    cell: eqx.nn.GRUCell
    norm: eqx.nn.RMSNorm

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.rotary = eqx.nn.RotaryPositionalEmbedding(6)
        self.attention = eqx.nn.MultiheadAttention(2, 12, key=one)
        self.cell = eqx.nn.GRUCell(12, 10, key=two)
        self.norm = eqx.nn.RMSNorm(12)

    def __call__(self, words):
        def turn(query, key, value):
            turned = jax.vmap(self.rotary, in_axes=1, out_axes=1)
            return turned(query), turned(key), value

        words = jax.vmap(self.norm)(self.attention(words, words, words, process_heads=turn))
        last, every = jax.lax.scan(lambda h, x: (self.cell(x, h),) * 2, jnp.zeros(10), words)
        return {"last": last, "every": every}


def network():
    return Network(jax.random.key(0))


def network_arrays():
    return eqx.filter(network(), eqx.is_array)


def attend(network, words):
    return eqx.combine(network, eqx.filter_eval_shape(globals()["network"]))(words)


def fresh_attend(rng):
    return {"words": rng.normal(size=(7, 12)).astype(np.float32)}


def mlp():
    return eqx.nn.MLP(4, 1, 8, 2, key=jax.random.key(1))


def mlp_arrays():
    return eqx.filter(mlp(), eqx.is_array)


def descend(mlp, x):
    """The module with other values: `Record`s where there is no Equinox."""
    static = eqx.filter(eqx.filter_eval_shape(globals()["mlp"]), eqx.is_array, inverse=True)

    def loss(arrays):
        return jnp.mean((jax.vmap(eqx.combine(arrays, static))(x)[:, 0] - x.sum(1)) ** 2)

    value, gradients = eqx.filter_value_and_grad(loss)(mlp)
    return eqx.apply_updates(mlp, jax.tree.map(lambda g: -0.05 * g, gradients)), value


def fresh_descend(rng):
    return {"mlp": mlp_arrays(), "x": rng.normal(size=(9, 4)).astype(np.float32)}


def norm():
    return eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, "batch", mode="batch")


def norm_state():
    return norm()[1]


def normalize(state, x):
    layer, _ = norm()
    return jax.vmap(layer, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)


def fresh_normalize(rng):
    return {"state": norm_state(), "x": rng.normal(2, 3, (9, 4)).astype(np.float32)}
