"""optax: a training step whose optimizer has states of many kinds, and L-BFGS."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax

MANIFESTS = {
    "optimizers": """
        [entry_points.chain]
        function = "with_optax:chain"
        donate = ["state"]
        inputs.state = { like = "with_optax:chain_state" }
        inputs.x = { shape = [16, 3], dtype = "float32" }

        [entry_points.lbfgs]
        function = "with_optax:lbfgs"
        inputs.state = { like = "with_optax:lbfgs_state" }
        inputs.target = { shape = [4], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }
    """
}

STATES = {"chain": {"state": 1}, "lbfgs": {"state": 1}}


def optimizer():
    scheduled = optax.inject_hyperparams(optax.adamw)(
        learning_rate=optax.warmup_cosine_decay_schedule(0.0, 1e-2, 3, 50)
    )
    by_name = optax.multi_transform(
        {"slow": optax.sgd(1e-3, momentum=0.9), "fast": scheduled}, {"w": "fast", "b": "slow"}
    )
    return optax.MultiSteps(optax.chain(optax.clip(1.0), by_name), every_k_schedule=2)


def chain_state():
    params = {"w": jnp.ones((3, 1)), "b": jnp.zeros(1)}
    return params, optimizer().init(params)


def chain(state, x):
    params, inner = state
    loss, gradients = jax.value_and_grad(
        lambda p: jnp.mean((x @ p["w"] + p["b"] - x.sum(1, keepdims=True) * 2) ** 2)
    )(params)
    updates, inner = optimizer().update(gradients, inner, params)
    return loss, (optax.apply_updates(params, updates), inner)


def fresh_chain(rng):
    return {"state": chain_state(), "x": rng.normal(size=(16, 3)).astype(np.float32)}


def lbfgs_state():
    params = jnp.array([-1.0, 1.0, 0.5, 2.0])
    return params, optax.lbfgs().init(params)


def lbfgs(state, target):
    def value(p):
        return jnp.sum((p - target) ** 2) + jnp.sum(jnp.cos(p))

    params, inner = state
    loss, gradient = optax.value_and_grad_from_state(value)(params, state=inner)
    updates, inner = optax.lbfgs().update(
        gradient, inner, params, value=loss, grad=gradient, value_fn=value
    )
    return loss, (optax.apply_updates(params, updates), inner)


def calls_lbfgs(rng):
    target = rng.normal(size=4).astype(np.float32)
    return [{"state": lbfgs_state(), "target": target} for _ in range(4)]
