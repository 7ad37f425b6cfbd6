"""evosax: an evolution strategy that is asked and told."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from evosax.algorithms import CMA_ES

MANIFESTS = {
    "evolution": """
        [entry_points.generation]
        function = "with_evosax:generation"
        donate = ["state"]
        inputs.key = { shape = [], dtype = "key<fry>" }
        inputs.state = { like = "with_evosax:start" }
        tolerance = { rtol = 1e-3, atol = 1e-4 }
    """,
}

STATES = {"generation": {"state": 0}}
STRATEGY = CMA_ES(population_size=8, solution=jnp.zeros(4))
PARAMS = STRATEGY.default_params


def start():
    return STRATEGY.init(jax.random.key(0), jnp.ones(4), PARAMS)


def generation(key, state):
    one, two = jax.random.split(key)
    population, state = STRATEGY.ask(one, state, PARAMS)
    fitness = jnp.sum((population - 0.5) ** 2, axis=-1)
    state, _ = STRATEGY.tell(two, population, fitness, state, PARAMS)
    return state, fitness


def fresh_generation(rng):
    return {"key": jax.random.key(int(rng.integers(2**31))), "state": start()}
