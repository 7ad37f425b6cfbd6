"""BFGS with a backtracking line search, for smooth functions of a few variables.

`jax.scipy.optimize` has it too; written out, it shows the control flow that a program may contain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

ITERATIONS_MAX = 200
GRADIENT_SMALL = 1e-4
STEP_SMALL = 1e-6
SUFFICIENT_INCREASE = 1e-4
LONGEST_STEP = 1.0
"""No variable changes by more in one iteration."""


class State(NamedTuple):
    """State of the search.

    point, gradient: float64[n].  value: float64[].  curvature: float64[n, n], of the inverse
    Hessian of minus the function.  step: float64[], the share of the direction to try next.
    iterations: int32[].
    """

    point: jax.Array
    value: jax.Array
    gradient: jax.Array
    curvature: jax.Array
    step: jax.Array
    iterations: jax.Array


def maximize(objective: Callable[[jax.Array], jax.Array], start: jax.Array) -> State:
    """A local maximum of a function of float64[n]. It may be NaN where it is not defined, but not
    at the start.
    """
    value_and_gradient = jax.value_and_grad(objective)

    def unfinished(state: State) -> jax.Array:
        steep = jnp.max(jnp.abs(state.gradient)) > GRADIENT_SMALL
        return steep & (state.step > STEP_SMALL) & (state.iterations < ITERATIONS_MAX)

    def iterate(state: State) -> State:
        direction = _bounded(state.curvature @ state.gradient)
        proposal = state.point + state.step * direction
        expected = SUFFICIENT_INCREASE * state.step * (state.gradient @ direction)
        # The gradient costs several times the value, so it is computed only for accepted steps.
        state = jax.lax.cond(
            objective(proposal) >= state.value + expected, accept, reject, state, proposal
        )
        return state._replace(iterations=state.iterations + 1)

    def accept(state: State, proposal: jax.Array) -> State:
        value, gradient = value_and_gradient(proposal)
        moved, turned = proposal - state.point, state.gradient - gradient
        curvature = _update(state.curvature, moved, turned)
        return State(proposal, value, gradient, curvature, jnp.ones(()), state.iterations)

    def reject(state: State, proposal: jax.Array) -> State:
        return state._replace(step=state.step / 2)

    value, gradient = value_and_gradient(start)
    first = State(
        point=start,
        value=value,
        gradient=gradient,
        curvature=jnp.eye(len(start)),
        step=jnp.ones(()),
        iterations=jnp.zeros((), jnp.int32),
    )
    last: State = jax.lax.while_loop(unfinished, iterate, first)
    return last


def _bounded(direction: jax.Array) -> jax.Array:
    return direction * jnp.minimum(1, LONGEST_STEP / jnp.max(jnp.abs(direction)))


def _update(curvature: jax.Array, moved: jax.Array, turned: jax.Array) -> jax.Array:
    """Return the BFGS update of the inverse Hessian, unless it loses positive definiteness."""
    inner = moved @ turned
    usable = inner > 1e-12
    scale = 1 / jnp.where(usable, inner, 1)
    project = jnp.eye(len(moved)) - scale * jnp.outer(moved, turned)
    updated = project @ curvature @ project.T + scale * jnp.outer(moved, moved)
    return jnp.where(usable, updated, curvature)
