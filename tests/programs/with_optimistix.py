"""optimistix and lineax: least squares, a root, and linear solves of several kinds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import lineax
import numpy as np
import optimistix

ENVIRONMENT = {"EQX_ON_ERROR": "nan"}

MANIFESTS = {
    "solvers": """
        [entry_points.squares]
        function = "with_optimistix:squares"
        inputs.start = { shape = [3], dtype = "float32" }
        inputs.data = { shape = [12], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }
        fixtures.ranges = { start = [0.5, 1], data = [0, 1] }

        [entry_points.root]
        function = "with_optimistix:root"
        inputs.c = { shape = [4], dtype = "float32" }
        fixtures.ranges = { c = [1, 4] }

        [entry_points.linear]
        function = "with_optimistix:linear"
        inputs.a = { shape = [5, 5], dtype = "float32" }
        inputs.b = { shape = [5], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }
    """
}


def squares(start, data):
    times = jnp.linspace(0, 1, 12)

    def residual(p, args):
        return p[0] * jnp.exp(-p[1] * times) + p[2] - data

    solver = optimistix.LevenbergMarquardt(rtol=1e-5, atol=1e-5)
    found = optimistix.least_squares(residual, solver, start, max_steps=64, throw=False)
    return found.value, found.stats["num_steps"]


def fresh_squares(rng):
    return {
        "start": rng.uniform(0.5, 1, 3).astype(np.float32),
        "data": np.sort(rng.uniform(0, 1, 12).astype(np.float32))[::-1].copy(),
    }


def root(c):
    def solve(c):
        solver = optimistix.Newton(rtol=1e-6, atol=1e-6)
        return optimistix.root_find(lambda y, c: y**3 - c, solver, jnp.ones_like(c), args=c).value

    return solve(c), jax.jacfwd(solve)(c)


def fresh_root(rng):
    return {"c": rng.uniform(1, 4, 4).astype(np.float32)}


def linear(a, b):
    symmetric = a @ a.T + 3 * jnp.eye(5)
    positive = lineax.MatrixLinearOperator(symmetric, lineax.positive_semidefinite_tag)
    general = lineax.MatrixLinearOperator(a + 4 * jnp.eye(5))
    return {
        "auto": lineax.linear_solve(general, b).value,
        "cholesky": lineax.linear_solve(positive, b, lineax.Cholesky()).value,
        "cg": lineax.linear_solve(positive, b, lineax.CG(1e-6, 1e-6)).value,
        "svd": lineax.linear_solve(general, b, lineax.SVD()).value,
    }


def fresh_linear(rng):
    return {
        "a": rng.normal(size=(5, 5)).astype(np.float32),
        "b": rng.normal(size=5).astype(np.float32),
    }
