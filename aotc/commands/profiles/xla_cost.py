"""The cost of a call by XLA's analysis before optimization, loops included.

XLA's analysis counts the body of a loop once, however often it runs: the number of steps is not
known there (`HloCostAnalysis::HandleWhile`). jax knows it: a `scan`, which is what `lax.scan`,
`lax.map` and a `fori_loop` with constant bounds become, states its length. So the other steps are
added here.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core

from aotc.capture import jax_private
from aotc.commands.profiles.probe_messages import CallCost

_COUNTED = ("flops", "transcendentals", "bytes accessed")

_OF_THEIR_OWN = ("shard_map", "pallas_call")
"""What is inside of them cannot be lowered by itself: it needs their axes, or is no XLA."""


def cost_of_call(traced: Any, lowered: Any) -> CallCost:
    """The cost of one call. traced: a `jax.stages.Traced`.  lowered: what it was lowered to."""
    return _analysed(lowered) + _further_steps(traced.jaxpr.jaxpr)


def _analysed(lowered: Any) -> CallCost:
    found = jax_private.cost_analysis(lowered)
    # XLA says -1 for what it cannot count.
    return CallCost(sum(max(0.0, float(found.get(key, 0.0))) for key in _COUNTED))


def _further_steps(jaxpr: Any) -> CallCost:
    """What the analysis of a jaxpr leaves out: all steps of its loops but those it counts."""
    return sum(map(_left_out, jaxpr.eqns), CallCost())


def _left_out(equation: Any) -> CallCost:
    if equation.primitive.name in _OF_THEIR_OWN:
        every = [
            e for inner in jax_private.nested_jaxprs(equation) for e in jax_private.equations(inner)
        ]
        return CallCost(open_loops=sum(each.primitive.name in ("scan", "while") for each in every))
    inside = [_further_steps(inner) for inner in jax_private.nested_jaxprs(equation)]
    match equation.primitive.name:
        case "scan":
            length = equation.params["length"]
            more = length - _steps_in_the_module(length, equation.params["unroll"])
            body = _body_cost(equation.params["jaxpr"]).times(more) if more else CallCost()
            return sum((each.times(length) for each in inside), body)
        case "while":
            return sum(inside, CallCost(open_loops=1))
        case "cond":
            # XLA takes the most of every number, over the branches.
            return max(inside, key=lambda each: each.work, default=CallCost())
        case _:
            return sum(inside, CallCost())


def _steps_in_the_module(length: int, unroll: int) -> int:
    """Return how many steps of a scan the lowered module holds.

    They are those of one turn of its loop, and those that are left over.
    """
    return (unroll if length >= unroll else 0) + length % unroll


def _body_cost(body: Any) -> CallCost:
    step = jax.jit(jax.extend.core.jaxpr_as_fun(body)).trace(*body.in_avals)
    return _analysed(step.lower(lowering_platforms=("cpu",)))
