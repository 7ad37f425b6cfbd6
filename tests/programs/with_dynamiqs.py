"""dynamiqs: a quantum system that loses photons, in complex numbers."""

from __future__ import annotations

import dynamiqs as dq
import jax.numpy as jnp
import numpy as np

ENVIRONMENT = {"EQX_ON_ERROR": "nan"}

MANIFESTS = {
    "quantum": """
        [entry_points.evolve]
        function = "with_dynamiqs:evolve"
        inputs.detuning = { shape = [], dtype = "float32" }
        inputs.alpha = { shape = [], dtype = "complex64" }
        tolerance = { rtol = 1e-3, atol = 1e-4 }
    """
}


def evolve(detuning, alpha):
    a = dq.destroy(6)
    found = dq.mesolve(
        detuning * a.dag() @ a + 0.1 * (a + a.dag()),
        [0.3 * a],
        dq.coherent(6, alpha),
        jnp.linspace(0, 1, 5),
        exp_ops=[a.dag() @ a],
        progress_meter=False,
    )
    return found.expects, found.final_state.to_jax()


def fresh_evolve(rng):
    alpha = np.complex64(rng.normal(0, 0.3) + 1j * rng.normal(0, 0.3))
    return {"detuning": np.float32(rng.normal()), "alpha": alpha}
