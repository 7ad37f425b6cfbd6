"""numpyro: variational inference with the optimizer of its documentation, and a run of NUTS."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

MANIFESTS = {
    "variational": """
        [entry_points.svi]
        function = "with_numpyro:svi"
        donate = ["state"]
        inputs.state = { like = "with_numpyro:svi_state" }
        inputs.x = { shape = [20, 2], dtype = "float32" }
        inputs.y = { shape = [20], dtype = "float32" }
    """,
    "sampling": """
        [entry_points.nuts]
        function = "with_numpyro:nuts"
        inputs.key = { shape = [], dtype = "key<fry>" }
        inputs.x = { shape = [20, 2], dtype = "float32" }
        inputs.y = { shape = [20], dtype = "float32" }
        tolerance = { rtol = 1e-3, atol = 1e-4 }

        [entry_points.predictive]
        function = "with_numpyro:predictive"
        inputs.key = { shape = [], dtype = "key<fry>" }
        inputs.x = { shape = [20, 2], dtype = "float32" }
    """,
}

STATES = {"svi": {"state": 0}}


def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ slope, noise), obs=y)


def inference():
    return SVI(model, AutoNormal(model), numpyro.optim.Adam(1e-2), Trace_ELBO())


def svi_state():
    return inference().init(jax.random.key(0), jnp.ones((20, 2)), jnp.ones(20))


def svi(state, x, y):
    made = inference()
    made.init(jax.random.key(0), x, y)  # sets the guide up
    return made.update(state, x, y)


def rows(rng):
    x = rng.normal(size=(20, 2)).astype(np.float32)
    return {"x": x, "y": (x @ [1, -2] + rng.normal(0, 0.1, 20)).astype(np.float32)}


def fresh_svi(rng):
    return {"state": svi_state(), **rows(rng)}


def nuts(key, x, y):
    chain = MCMC(NUTS(model, max_tree_depth=4), num_warmup=10, num_samples=8, progress_bar=False)
    chain.run(key, x, y)
    return chain.get_samples()


def key_of(rng):
    return jax.random.key(int(rng.integers(2**31)))


def calls_nuts(rng):
    return [{"key": key_of(rng), **rows(rng)}]


def predictive(key, x):
    return Predictive(model, num_samples=5)(key, x)


def fresh_predictive(rng):
    return {"key": key_of(rng), "x": rows(rng)["x"]}
