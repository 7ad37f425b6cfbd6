"""tinygp: a quasiseparable kernel, its likelihood with a gradient, and a conditioned process."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from tinygp import GaussianProcess, kernels

MANIFESTS = {
    "process": """
        enable_x64 = true

        [entry_points.condition]
        function = "with_tinygp:condition"
        inputs.t = { like = "with_tinygp:times" }
        inputs.y = { shape = [15], dtype = "float64" }
        inputs.scale = { shape = [], dtype = "float64" }
        fixtures.ranges = { scale = [0.5, 2] }
    """,
}


def times():
    return np.linspace(0, 3, 15)


def condition(t, y, scale):
    def log(scale):
        kernel = kernels.quasisep.Matern32(scale=scale) + kernels.quasisep.SHO(2.0, 3.0, 0.5)
        process = GaussianProcess(kernel, t, diag=0.1, assume_sorted=True)
        return process.log_probability(y), process

    value, gradient = jax.value_and_grad(lambda s: log(s)[0])(scale)
    dense = GaussianProcess(kernels.ExpSquared(scale) * kernels.Cosine(2.0), t, diag=0.1)
    _, conditioned = dense.condition(y, jnp.linspace(0, 3, 4))
    return value, gradient, conditioned.loc, conditioned.variance


def fresh_condition(rng):
    t = np.sort(rng.uniform(0, 3, 15))
    return {"t": t, "y": np.sin(3 * t), "scale": np.float64(rng.uniform(0.5, 2))}
