"""A Gaussian process with a squared-exponential kernel: fit it, predict with it, sample from it.

All of it in float64; the logarithms of the hyperparameters are one vector where they are optimized.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import jax
import jax.numpy as jnp

from gp.maximize import maximize

LENGTHS_TRIED = (0.1, 0.3, 1.0)
"""Where the search for hyperparameters starts: lengths, relative to the spread of x."""

NOISE_TRIED = 0.2
"""The same of the noise, relative to the spread of y."""

CLEARLY_BETTER = 1e-3
"""Starts that meet in one maximum differ by less log likelihood; the first of them is kept."""

SMALLEST_JITTER = 1e-8
"""Added to the diagonal of a covariance matrix, relative to its mean, before factoring it."""


class Hyperparameters(NamedTuple):
    """float64[] each. amplitude: standard deviation of the function.  length: over which it
    changes.  noise: standard deviation of an observation around it.
    """

    amplitude: jax.Array
    length: jax.Array
    noise: jax.Array


class Fit(TypedDict):
    """hyperparameters: of the largest marginal likelihood.  log_likelihood: float64[], at them.
    iterations: int32[], that the search from the chosen start took.  x: float64[points, inputs], as
    given.  cholesky: float64[points, points], of the covariance of y.  coefficients:
    float64[points], that covariance's inverse times y.
    """

    hyperparameters: Hyperparameters
    log_likelihood: jax.Array
    iterations: jax.Array
    x: jax.Array
    cholesky: jax.Array
    coefficients: jax.Array


class Prediction(TypedDict):
    """Mean and variance of the function without noise, float64[queries] each."""

    mean: jax.Array
    variance: jax.Array


def fit(x: jax.Array, y: jax.Array) -> Fit:
    """Maximize the marginal likelihood. x: float64[points, inputs]; y: float64[points], with a mean
    of about zero. Neither may be constant.
    """

    def objective(logarithms: jax.Array) -> jax.Array:
        return log_likelihood(Hyperparameters(*jnp.exp(logarithms)), x, y)

    def try_start(best: Best, start: jax.Array) -> tuple[Best, None]:
        found = maximize(objective, start)
        candidate = Best(found.point, found.value, found.iterations)
        # NaN, where the search left the range of float64, compares as not better.
        better = found.value > best.value + CLEARLY_BETTER
        return jax.tree.map(lambda new, old: jnp.where(better, new, old), candidate, best), None

    starts = search_starts(x, y)
    nothing = Best(starts[0], jnp.asarray(-jnp.inf), jnp.asarray(0, jnp.int32))
    return fit_at(jax.lax.scan(try_start, nothing, starts)[0], x, y)


def fit_at(best: Best, x: jax.Array, y: jax.Array) -> Fit:
    """Return the process with these hyperparameters, given the observations."""
    hyperparameters = Hyperparameters(*jnp.exp(best.logarithms))
    cholesky = jnp.linalg.cholesky(observed_covariance(hyperparameters, x))
    return {
        "hyperparameters": hyperparameters,
        "log_likelihood": best.value,
        "iterations": best.iterations,
        "x": x,
        "cholesky": cholesky,
        "coefficients": jax.scipy.linalg.cho_solve((cholesky, True), y),
    }


class Best(NamedTuple):
    """The best of the starts so far. logarithms: float64[3].  value: float64[].  iterations:
    int32[].
    """

    logarithms: jax.Array
    value: jax.Array
    iterations: jax.Array


def search_starts(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return logarithms of hyperparameters, float64[starts, 3]."""
    amplitude, spread = jnp.std(y), jnp.std(x)
    starts = [
        jnp.stack([amplitude, length * spread, NOISE_TRIED * amplitude]) for length in LENGTHS_TRIED
    ]
    return jnp.log(jnp.stack(starts))


def predict(fit: Fit, x: jax.Array) -> Prediction:
    """Return mean and variance of the function at x, float64[queries, inputs]."""
    mean, whitened = _condition(fit, x)
    prior = fit["hyperparameters"].amplitude ** 2
    return {"mean": mean, "variance": prior - jnp.sum(whitened**2, axis=0)}


def sample(fit: Fit, x: jax.Array, key: jax.Array, *, draws: int) -> jax.Array:
    """Functions drawn from the posterior, at x. x: float64[queries, inputs]; key: uint32[2], the
    data of a jax.random key; returns float64[draws, queries].
    """
    mean, whitened = _condition(fit, x)
    covariance = kernel(fit["hyperparameters"], x, x) - whitened.T @ whitened
    factor = robust_cholesky(covariance)
    normal = jax.random.normal(jax.random.wrap_key_data(key), (draws, len(x)), x.dtype)
    return mean + normal @ factor.T


def log_likelihood(hyperparameters: Hyperparameters, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the log marginal likelihood of y, float64[]; NaN where it cannot be computed."""
    cholesky = jnp.linalg.cholesky(observed_covariance(hyperparameters, x))
    whitened = jax.lax.linalg.triangular_solve(cholesky, y[:, None], left_side=True, lower=True)
    log_determinant = 2 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    return -0.5 * (jnp.sum(whitened**2) + log_determinant + len(y) * jnp.log(2 * jnp.pi))


def observed_covariance(hyperparameters: Hyperparameters, x: jax.Array) -> jax.Array:
    """Return the covariance of noisy observations at x, float64[points, points]."""
    noise = hyperparameters.noise**2 * jnp.eye(len(x))
    return kernel(hyperparameters, x, x) + noise


def kernel(hyperparameters: Hyperparameters, a: jax.Array, b: jax.Array) -> jax.Array:
    """Covariance of the function at a, float64[n, inputs], with it at b, float64[m, inputs]:
    float64[n, m].
    """
    squared_distance = jnp.sum((a[:, None] - b[None]) ** 2, axis=-1)
    scaled = squared_distance / hyperparameters.length**2
    return hyperparameters.amplitude**2 * jnp.exp(-0.5 * scaled)


def robust_cholesky(covariance: jax.Array) -> jax.Array:
    """The factor of a matrix that may be singular but for rounding, with as little jitter on its
    diagonal as makes it positive definite. covariance, result: float64[n, n].
    """
    scale = jnp.mean(jnp.diagonal(covariance)) * jnp.eye(len(covariance))

    def factor(jitter: jax.Array) -> jax.Array:
        return jnp.linalg.cholesky(covariance + jitter * scale)

    def failed(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        jitter, result = state
        return (jitter < 1) & ~jnp.all(jnp.isfinite(result))

    def more(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        jitter = state[0] * 10
        return jitter, factor(jitter)

    jitter = jnp.asarray(SMALLEST_JITTER, covariance.dtype)
    return jax.lax.while_loop(failed, more, (jitter, factor(jitter)))[1]


def _condition(fit: Fit, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The posterior mean at x, float64[queries], and what the observations explain there, as the
    factor of a covariance: float64[points, queries].
    """
    cross = kernel(fit["hyperparameters"], fit["x"], x)
    whitened = jax.lax.linalg.triangular_solve(fit["cholesky"], cross, left_side=True, lower=True)
    return cross.T @ fit["coefficients"], whitened
