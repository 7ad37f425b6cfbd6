"""Haiku: a network with names of its own and batch norm, whose state is passed on."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

MANIFESTS = {
    "network": """
        [weights.params]
        init = "with_haiku:params"

        [entry_points.haiku_step]
        function = "with_haiku:step"
        bind = { params = "params" }
        inputs.state = { like = "with_haiku:state" }
        inputs.x = { shape = [6, 5, 7], dtype = "float32" }
        inputs.key = { shape = [], dtype = "key<fry>" }
    """
}

STATES = {"haiku_step": {"state": 1}}


@hk.transform_with_state
def network(x):
    x = hk.BatchNorm(True, True, 0.9)(hk.nets.MLP([16, 8])(x), is_training=True)
    x = hk.dropout(hk.next_rng_key(), 0.2, x)
    core = hk.LSTM(8)
    outputs, last = hk.dynamic_unroll(core, jnp.swapaxes(x, 0, 1), core.initial_state(x.shape[0]))
    return hk.Linear(3)(outputs), last


def made():
    return network.init(jax.random.key(0), jnp.ones((6, 5, 7)))


def params():
    return made()[0]


def state():
    return made()[1]


def step(params, state, x, key):
    return network.apply(params, state, key, x)


def fresh_haiku_step(rng):
    return {
        "state": state(),
        "x": rng.normal(size=(6, 5, 7)).astype(np.float32),
        "key": jax.random.key(int(rng.integers(2**31))),
    }
