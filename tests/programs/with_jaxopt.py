"""jaxopt: a solver's update with its state, a projection, and a solution with its derivative."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np

MANIFESTS = {
    "solvers": """
        [entry_points.update]
        function = "with_jaxopt:update"
        inputs.params = { shape = [3], dtype = "float32" }
        inputs.state = { like = "with_jaxopt:state" }
        inputs.x = { shape = [10, 3], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }

        [entry_points.ridge]
        function = "with_jaxopt:ridge"
        inputs.penalty = { shape = [], dtype = "float32" }
        inputs.x = { shape = [10, 3], dtype = "float32" }
        tolerance = { rtol = 1e-3, atol = 1e-4 }
        fixtures.ranges = { penalty = [0.5, 2] }

        [entry_points.project]
        function = "with_jaxopt:project"
        inputs.x = { shape = [6], dtype = "float32" }
    """,
}

STATES = {"update": {"params": 0, "state": 1}}


def loss(params, x):
    return jnp.mean(jnp.log1p(jnp.exp(x @ params))) + 0.1 * jnp.sum(params**2)


def solver():
    return jaxopt.LBFGS(loss, maxiter=20, history_size=3)


def state():
    return solver().init_state(jnp.ones(3), jnp.ones((10, 3)))


def update(params, state, x):
    return solver().update(params, state, x)


def fresh_update(rng):
    x = rng.normal(size=(10, 3)).astype(np.float32)
    return {"params": np.ones(3, np.float32), "state": state(), "x": x}


def ridge(penalty, x):
    def solution(penalty):
        target = x.sum(1)
        squares = jaxopt.GradientDescent(
            lambda p, c: jnp.mean((x @ p - target) ** 2) + c * jnp.sum(p**2), maxiter=50
        )
        return squares.run(jnp.zeros(3), penalty).params

    return solution(penalty), jax.jacobian(solution)(penalty)


def fresh_ridge(rng):
    return {
        "penalty": np.float32(rng.uniform(0.5, 2)),
        "x": rng.normal(size=(10, 3)).astype(np.float32),
    }


def project(x):
    return {
        "simplex": jaxopt.projection.projection_simplex(x),
        "l1": jaxopt.projection.projection_l1_ball(x, 1.5),
    }


def fresh_project(rng):
    return {"x": rng.normal(size=6).astype(np.float32)}
