"""gpjax: the posterior of a Gaussian process, in 64 bits."""

from __future__ import annotations

import gpjax
import jax.numpy as jnp
import numpy as np

MANIFESTS = {
    "posterior": """
        enable_x64 = true

        [entry_points.posterior]
        function = "with_gpjax:posterior"
        inputs.x = { shape = [12, 1], dtype = "float64" }
        inputs.y = { shape = [12, 1], dtype = "float64" }
        inputs.at = { shape = [5, 1], dtype = "float64" }
    """,
}


PRIOR = gpjax.gps.Prior(
    mean_function=gpjax.mean_functions.Zero(), kernel=gpjax.kernels.RBF(lengthscale=0.7)
)
LIKELIHOOD = gpjax.likelihoods.Gaussian(num_datapoints=12, obs_stddev=jnp.array(0.1))


def posterior(x, y, at):
    latent = (PRIOR * LIKELIHOOD).predict(at, train_data=gpjax.Dataset(x, y))
    return {"mean": latent.mean, "variance": latent.variance}


def fresh_posterior(rng):
    x = np.sort(rng.uniform(-2, 2, (12, 1)), axis=0)
    return {"x": x, "y": np.sin(x) + rng.normal(0, 0.1, x.shape), "at": rng.uniform(-2, 2, (5, 1))}
