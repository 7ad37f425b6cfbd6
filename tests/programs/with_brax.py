"""brax: an environment with its physics, reset and stepped."""

from __future__ import annotations

import jax
import numpy as np
from brax import envs

MANIFESTS = {
    "environment": """
        [entry_points.reset]
        function = "with_brax:reset"
        inputs.key = { shape = [2], dtype = "uint32" }
        fixtures.ranges = { key = [0, 1000] }

        [entry_points.brax_step]
        function = "with_brax:step"
        inputs.state = { like = "with_brax:start" }
        inputs.action = { shape = [1], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }
        fixtures.ranges = { action = [-1, 1] }
    """
}

STATES = {"brax_step": {"state": None}}
ENVIRONMENT_OF_BRAX = envs.get_environment("inverted_pendulum", backend="spring")


def reset(key):
    return ENVIRONMENT_OF_BRAX.reset(key)


def fresh_reset(rng):
    return {"key": rng.integers(0, 2**32, 2, dtype=np.uint32)}


def start():
    return reset(jax.random.PRNGKey(0))


def step(state, action):
    return ENVIRONMENT_OF_BRAX.step(state, action)


def fresh_brax_step(rng):
    return {"state": start(), "action": rng.uniform(-1, 1, 1).astype(np.float32)}
