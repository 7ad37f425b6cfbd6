"""jax-md: a molecular dynamics step at constant temperature."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import energy, simulate, space

MANIFESTS = {
    "dynamics": """
        enable_x64 = true

        [entry_points.md_step]
        function = "with_jax_md:step"
        donate = ["state"]
        inputs.state = { like = "with_jax_md:start" }
        inputs.temperature = { shape = [], dtype = "float64" }
        fixtures.ranges = { temperature = [0.1, 0.5] }
    """
}

STATES = {"md_step": {"state": 0}}
DISPLACEMENT, SHIFT = space.periodic(4.0)
ENERGY = energy.soft_sphere_pair(DISPLACEMENT)
INIT, APPLY = simulate.nvt_langevin(ENERGY, SHIFT, 1e-2, kT=0.2)


def start():
    grid = jnp.stack(jnp.meshgrid(*[jnp.arange(3.0) * 1.2] * 2), -1).reshape(-1, 2)
    return INIT(jax.random.PRNGKey(0), grid)


def step(state, temperature):
    state = APPLY(state, kT=temperature)
    return state, ENERGY(state.position)


def fresh_md_step(rng):
    return {"state": start(), "temperature": np.float64(rng.uniform(0.1, 0.5))}
