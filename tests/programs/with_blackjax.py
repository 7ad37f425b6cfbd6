"""blackjax: steps of NUTS, of an ensemble of Langevin samplers."""

from __future__ import annotations

import blackjax
import jax
import jax.numpy as jnp

MANIFESTS = {
    "samplers": """
        [entry_points.nuts_step]
        function = "with_blackjax:nuts_step"
        donate = ["state"]
        inputs.key = { shape = [], dtype = "key<fry>" }
        inputs.state = { like = "with_blackjax:nuts_state" }
        tolerance = { rtol = 1e-3, atol = 1e-4 }

        [entry_points.ensemble_step]
        function = "with_blackjax:ensemble_step"
        inputs.key = { shape = [], dtype = "key<fry>" }
        inputs.state = { like = "with_blackjax:ensemble_state" }
        tolerance = { rtol = 1e-3, atol = 1e-4 }
    """
}

STATES = {"nuts_step": {"state": 0}, "ensemble_step": {"state": 0}}


def logdensity(position):
    return -0.5 * jnp.sum((position["x"] - 1) ** 2 / jnp.array([1.0, 4.0])) - position["y"] ** 2


def nuts_sampler():
    return blackjax.nuts(logdensity, step_size=0.3, inverse_mass_matrix=jnp.ones(3))


def start():
    return {"x": jnp.zeros(2), "y": jnp.array(0.5)}


def nuts_state():
    return nuts_sampler().init(start())


def nuts_step(key, state):
    return nuts_sampler().step(key, state)


def key_of(rng):
    return jax.random.key(int(rng.integers(2**31)))


def fresh_nuts_step(rng):
    return {"key": key_of(rng), "state": nuts_state()}


def ensemble_state():
    """Four chains at once: a state with an axis more."""
    chains = {"x": jnp.linspace(-1, 1, 8).reshape(4, 2), "y": jnp.zeros(4)}
    return jax.vmap(langevin().init)(chains)


def langevin():
    return blackjax.mala(logdensity, 0.2)


def ensemble_step(key, state):
    return jax.vmap(langevin().step)(jax.random.split(key, 4), state)


def fresh_ensemble_step(rng):
    return {"key": key_of(rng), "state": ensemble_state()}
