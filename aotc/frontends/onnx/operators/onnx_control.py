"""If, Loop and Scan: by what is known while tracing, or as jax's cond, while_loop and scan."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from aotc.base.errors import CaptureError
from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_graph_reader import Graph
from aotc.frontends.onnx.onnx_operator_table import Value, operator
from aotc.frontends.onnx.onnx_values import elements, is_known

UNROLLED = 16
"""The most steps of a loop that become the body so many times, where jax's scan could serve."""

STEPS = 1024
"""The most steps of a loop that nothing but unrolling serves: its values change their shapes."""


def _arrays(call: Call, values: Sequence[Value]) -> tuple[Any, ...]:
    if any(value is None or isinstance(value, list) for value in values):
        call.lacks("a sequence or an optional in a condition or a loop")
    return tuple(map(call.to_jax, values))


@operator("If")
def if_(call: Call, condition: Value) -> tuple[Value, ...]:
    yes, no = call.attribute("then_branch"), call.attribute("else_branch")
    if is_known(condition):
        return tuple(call.run(yes if condition.reshape(()) else no, []))

    def branch(graph: Graph) -> Any:
        return lambda: _arrays(call, call.run(graph, []))

    shapes = [jax.eval_shape(branch(graph)) for graph in (yes, no)]
    for one, other in zip(*shapes, strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            call.lacks(
                f"branches of {one.dtype}{list(one.shape)} and {other.dtype}{list(other.shape)}",
                expected="branches of one dtype and shape",
            )
    chosen = call.to_jax(condition).reshape(())
    return tuple(lax.cond(chosen, branch(yes), branch(no)))


@operator("Loop")
def loop(call: Call, trips: Value = None, condition: Value = None, *states: Value) -> Any:
    body: Graph = call.attribute("body")
    count = len(states)
    if len(body.inputs) != count + 2 or len(body.outputs) < count + 1:
        call.refuse("a body with other inputs or outputs than the loop")
    known = [value is None or is_known(value) for value in (trips, condition)]
    stacks = len(body.outputs) - 1 - count
    if is_known(condition) and not condition.reshape(()):
        return _finished(call, body, states, [])
    if all(known):
        limit = None if trips is None else int(trips.reshape(()))
        if limit is not None and limit > UNROLLED:
            scanned = _scanned(call, body, limit, states)
            if scanned is not None:
                return scanned
        unrolled = _unrolled(call, body, limit, states)
        if unrolled is not None:
            return unrolled
    if stacks:
        call.lacks("a loop with an unknown number of stacked results")
    return _while(call, body, trips, condition, states)


def _finished(
    call: Call, body: Graph, states: Sequence[Value], rows: list[Sequence[Value]]
) -> tuple[Value, ...]:
    stacks = len(body.outputs) - 1 - len(states)
    if not rows and stacks:
        return (*states, *_none_stacked(call, body, states))
    columns = [jnp.stack([call.to_jax(row[i]) for row in rows]) for i in range(stacks)]
    return (*states, *columns)


def _none_stacked(call: Call, body: Graph, states: Sequence[Value]) -> list[Any]:
    """Return the stacked results of a loop without a step: no rows, shaped as in a first step."""

    def step(*carried: Any) -> Any:
        _, *results = call.run(body, [np.asarray(0, np.int64), np.asarray(True), *carried])
        return _arrays(call, results[len(states) :])

    # What is known decides shapes in the body, as it does where the loop is unrolled.
    rows = jax.eval_shape(lambda: step(*states))
    return [jnp.zeros((0, *row.shape), row.dtype) for row in rows]


def _unrolled(
    call: Call, body: Graph, limit: int | None, states: Sequence[Value]
) -> tuple[Value, ...] | None:
    """Return the loop step by step; None if a condition turns out not to be known."""
    given, count = list(states), len(states)
    rows: list[Sequence[Value]] = []
    step = 0
    more: Value = np.asarray(True)
    while limit is None or step < limit:
        if step >= STEPS:
            call.lacks(
                f"a loop of more than {STEPS} steps with values of changing shape, or with a "
                "condition computed in the loop"
            )
        more, *results = call.run(body, [np.asarray(step, np.int64), more, *given])
        if not is_known(more):
            return None
        given, step = results[:count], step + 1
        rows.append(results[count:])
        if not more.reshape(()):
            break
    return _finished(call, body, given, rows)


def _same_types(before: Sequence[Any], after: Sequence[Any]) -> bool:
    return all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(before, after, strict=True))


def _scanned(call: Call, body: Graph, limit: int, states: Sequence[Value]) -> Any:
    """Return the loop as jax's scan; None if shapes change or a condition may end it."""
    if any(value is None or isinstance(value, list) for value in states):
        return None
    first, count = _arrays(call, states), len(states)
    ends: list[bool] = []
    dtype = call.jax_dtype(np.int64)

    def step(carried: Any, index: Any) -> Any:
        more, *results = call.run(body, [index, np.asarray(True), *carried])
        ends.append(not (is_known(more) and bool(more.reshape(()))))
        arrays = _arrays(call, results)
        return arrays[:count], arrays[count:]

    left = call.evaluation.left
    try:
        after, rows = jax.eval_shape(step, first, jax.ShapeDtypeStruct((), dtype))
    except (jax.errors.JAXTypeError, CaptureError):
        return None  # what a step needs to know may be known step by step
    finally:
        call.evaluation.left = left
    if any(ends) or not _same_types(first, after):
        return None
    call.is_small([limit, max((elements(row.shape) for row in rows), default=1)])
    carried, stacked = lax.scan(step, first, lax.iota(dtype, limit))
    return (*carried, *stacked)


def _while(
    call: Call, body: Graph, trips: Value, condition: Value, states: Sequence[Value]
) -> tuple[Value, ...]:
    first = _arrays(call, states)
    dtype = call.jax_dtype(np.int64)
    limit = None
    if trips is not None:
        bound = np.iinfo(dtype).max
        clipped = np.minimum(trips, bound) if is_known(trips) else trips
        limit = call.to_jax(clipped).reshape(())
    start = jnp.asarray(True) if condition is None else call.to_jax(condition).reshape(())

    def goes_on(carried: Any) -> Any:
        index, more, _ = carried
        return more if limit is None else more & (index < limit)

    def step(carried: Any) -> Any:
        index, more, values = carried
        again, *results = call.run(body, [index, more, *values])
        arrays = _arrays(call, results)
        if not _same_types(values, arrays):
            call.lacks("a loop whose values change their shapes")
        return index + 1, call.to_jax(again).reshape(()), arrays

    _, _, values = lax.while_loop(goes_on, step, (jnp.zeros((), dtype), start, first))
    return tuple(values)


@operator("Scan")
def scan(call: Call, *values: Value) -> tuple[Value, ...]:
    body: Graph = call.attribute("body")
    number = call.attribute("num_scan_inputs")
    if not 1 <= number <= len(values):
        call.refuse(f"num_scan_inputs of {number}", expected=f"1 to {len(values)}")
    if call.version < 9:
        call.lacks("Scan of opset 8", hint="export the model for opset 9 or newer")
    split = len(values) - number
    states, given = _arrays(call, values[:split]), _arrays(call, values[split:])
    stacks = len(body.outputs) - split
    axes = call.attribute("scan_input_axes") or (0,) * number
    back = call.attribute("scan_input_directions") or (0,) * number
    rows = [
        jnp.flip(jnp.moveaxis(x, axis, 0), 0) if reverse else jnp.moveaxis(x, axis, 0)
        for x, axis, reverse in zip(given, axes, back, strict=True)
    ]

    def step(carried: Any, row: Any) -> Any:
        results = _arrays(call, call.run(body, [*carried, *row]))
        if not _same_types(carried, results[:split]):
            call.lacks("a loop whose values change their shapes")
        return results[:split], results[split:]

    carried, found = lax.scan(step, states, tuple(rows))
    out_axes = call.attribute("scan_output_axes") or (0,) * stacks
    out_back = call.attribute("scan_output_directions") or (0,) * stacks
    results = [
        jnp.moveaxis(jnp.flip(x, 0) if reverse else x, 0, axis)
        for x, axis, reverse in zip(found, out_axes, out_back, strict=True)
    ]
    return (*carried, *results)
