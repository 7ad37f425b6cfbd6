"""diffrax: an ordinary differential equation with its gradient, a stiff and a stochastic one."""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

ENVIRONMENT = {"EQX_ON_ERROR": "nan"}

MANIFESTS = {
    "equations": """
        [entry_points.fit]
        function = "with_diffrax:fit"
        inputs.rates = { shape = [4], dtype = "float32" }
        inputs.y0 = { shape = [2], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }
        fixtures.ranges = { rates = [0.5, 1.5], y0 = [1, 2] }

        [entry_points.stiff]
        function = "with_diffrax:stiff"
        inputs.y0 = { shape = [3], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }
        fixtures.ranges = { y0 = [0.5, 1] }

        [entry_points.walk]
        function = "with_diffrax:walk"
        inputs.key = { shape = [], dtype = "key<fry>" }
        inputs.y0 = { shape = [], dtype = "float32" }
    """
}


def lotka(t, y, rates):
    a, b, c, d = rates
    return jnp.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])


def fit(rates, y0):
    def loss(rates):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lotka),
            diffrax.Tsit5(),
            t0=0,
            t1=3,
            dt0=0.1,
            y0=y0,
            args=rates,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, 3, 7)),
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-4),
            max_steps=256,
        )
        return jnp.sum(solution.ys**2), solution

    (value, solution), gradient = jax.value_and_grad(loss, has_aux=True)(rates)
    return {"value": value, "gradient": gradient, "ys": solution.ys, "stats": solution.stats}


def fresh_fit(rng):
    return {
        "rates": rng.uniform(0.5, 1.5, 4).astype(np.float32),
        "y0": rng.uniform(1, 2, 2).astype(np.float32),
    }


def robertson(t, y, args):
    one, two = 0.04 * y[0], 1e2 * y[1] * y[2]
    three = 3e3 * y[1] ** 2
    return jnp.stack([two - one, one - two - three, three])


def stiff(y0):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(robertson),
        diffrax.Kvaerno5(),
        t0=0,
        t1=10,
        dt0=1e-3,
        y0=y0,
        stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
        max_steps=512,
    )
    return solution.ys, solution.result == diffrax.RESULTS.successful


def fresh_stiff(rng):
    return {"y0": rng.uniform(0.5, 1, 3).astype(np.float32)}


def walk(key, y0):
    brownian = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=key)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, args: -y),
        diffrax.ControlTerm(lambda t, y, args: 0.3, brownian),
    )
    solution = diffrax.diffeqsolve(
        terms, diffrax.Euler(), 0.0, 1.0, 0.05, y0, saveat=diffrax.SaveAt(steps=True), max_steps=32
    )
    return solution.ts, solution.ys


def fresh_walk(rng):
    return {"key": jax.random.key(int(rng.integers(2**31))), "y0": np.float32(rng.normal())}
