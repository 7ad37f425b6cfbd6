"""flowjax: a spline flow, whose module is an argument."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import RationalQuadraticSpline
from flowjax.distributions import Normal
from flowjax.flows import coupling_flow

ENVIRONMENT = {"EQX_ON_ERROR": "nan"}

MANIFESTS = {
    "spline": """
        [weights.params]
        init = "with_flowjax:params"

        [entry_points.density]
        function = "with_flowjax:density"
        bind = { params = "params" }
        inputs.x = { shape = [6, 3], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }

        [entry_points.draw]
        function = "with_flowjax:draw"
        bind = { params = "params" }
        inputs.key = { shape = [], dtype = "key<fry>" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }
    """
}


def flow():
    return coupling_flow(
        jax.random.key(0),
        base_dist=Normal(jnp.zeros(3)),
        transformer=RationalQuadraticSpline(knots=4, interval=3),
        flow_layers=2,
        nn_width=8,
    )


def params():
    return eqx.filter(flow(), eqx.is_inexact_array)


def whole(params):
    return eqx.combine(params, eqx.filter(flow(), eqx.is_inexact_array, inverse=True))


def density(params, x):
    return whole(params).log_prob(x)


def fresh_density(rng):
    return {"x": rng.normal(size=(6, 3)).astype(np.float32)}


def draw(params, key):
    return whole(params).sample_and_log_prob(key, (4,))


def fresh_draw(rng):
    return {"key": jax.random.key(int(rng.integers(2**31)))}
