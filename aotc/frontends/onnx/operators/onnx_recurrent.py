"""RNN, LSTM and GRU: each direction as one scan over the steps."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_operator_table import Value, operator
from aotc.frontends.onnx.operators.onnx_elementwise import ACTIVATIONS
from aotc.frontends.onnx.operators.onnx_layout import reversed_steps

_ACTIVATIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "relu": (lambda x: jnp.maximum(x, 0), ()),
    "tanh": (jnp.tanh, ()),
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "scaledtanh": (lambda x, a, b: a * jnp.tanh(b * x), (1.0, 1.0)),
    **{
        name.lower(): (ACTIVATIONS[name][0], defaults)
        for name, defaults in {
            "Sigmoid": (),
            "LeakyRelu": (0.01,),
            "ThresholdedRelu": (1.0,),
            "HardSigmoid": (0.2, 0.5),
            "Elu": (1.0,),
            "Softsign": (),
            "Softplus": (),
        }.items()
    },
}
"""Functions of numbers and of alpha and beta, as far as they take these, with their defaults."""


def _activations(call: Call, default: Sequence[str], directions: int) -> list[list[Any]]:
    """Return the functions of each direction."""
    given = any(attribute.name == "activations" for attribute in call.node.message.attribute)
    names = list(default) * directions
    if given:
        names = [name.decode("utf-8", "replace") for name in call.attribute("activations")]
    stated = [list(call.attribute(f"activation_{name}") or ()) for name in ("alpha", "beta")]
    found = []
    for name in names:
        known = _ACTIVATIONS.get(name.lower())
        if known is None:
            call.refuse("an unknown activation")
        function, defaults = known
        numbers = [of.pop(0) if of else a for of, a in zip(stated, defaults, strict=False)]
        found.append(lambda x, f=function, numbers=numbers: f(x, *numbers).astype(x.dtype))
    each = len(default)
    if len(found) != each * directions:
        call.refuse(f"{len(found)} activations", expected=f"{each * directions}")
    return [found[each * d : each * (d + 1)] for d in range(directions)]


def _recurrent(
    call: Call,
    default: Sequence[str],
    gates: int,
    step: Callable[..., Any],
    inputs: Sequence[Value],
) -> tuple[Any, ...]:
    """Compute all directions of a layer.

    `step` maps states, the row's share of the gates, R transposed, its bias and the activations to
    states. `inputs` are x, W, R, bias, lengths of sequences, and the initial value of each state,
    the hidden one first.
    """
    x, w, r, bias, lengths, *initial = inputs
    x, w, r = map(call.to_jax, (x, w, r))
    last = bool(call.attribute("layout", 0))
    x = jnp.swapaxes(x, 0, 1) if last else x
    directions, hidden = w.shape[0], r.shape[2]
    if call.attribute("hidden_size", hidden) != hidden:
        call.refuse("a hidden_size different from the weights'")
    batch, dtype = x.shape[1], x.dtype
    way = call.attribute("direction")
    if directions != 1 + (way == "bidirectional"):
        call.refuse(f"{directions} directions, {way}")
    bias = jnp.zeros((directions, 2 * gates * hidden), dtype) if bias is None else call.to_jax(bias)
    given = []
    for state in initial:
        if state is None:
            given.append(jnp.zeros((directions, batch, hidden), dtype))
        else:
            value = call.to_jax(state)
            given.append(jnp.swapaxes(value, 0, 1) if last else value)
    counts = None if lengths is None else call.to_jax(lengths).astype(jnp.int32)
    functions = _activations(call, default, directions)
    bound = call.attribute("clip")
    outputs, finals = [], []
    for d in range(directions):
        backward = way == "reverse" or d == 1
        rows = x
        if backward:
            rows = lax.rev(x, (0,)) if counts is None else reversed_steps(x, counts)
        shares = jnp.einsum("sbi,gi->sbg", rows, w[d]) + bias[d, : gates * hidden]
        rest = r[d].T, bias[d, gates * hidden :]  # not transposed in every step

        def one(carried: Any, entry: Any, rest: Any = rest, d: int = d) -> Any:
            index, share = entry
            new = step(carried, share, *rest, functions[d], bound)
            if counts is None:
                return new, new[0]
            live = (index < counts)[:, None]
            kept = tuple(jnp.where(live, a, b) for a, b in zip(new, carried, strict=True))
            return kept, jnp.where(live, new[0], 0)

        steps = lax.iota(jnp.int32, x.shape[0])
        final, every = lax.scan(one, tuple(state[d] for state in given), (steps, shares))
        if backward:
            every = lax.rev(every, (0,)) if counts is None else reversed_steps(every, counts)
        outputs.append(every)
        finals.append(final)
    whole = jnp.stack(outputs, 1)
    ends = [jnp.stack(column, 0) for column in zip(*finals, strict=True)]
    if last:
        return whole.transpose(2, 0, 1, 3), *(jnp.swapaxes(end, 0, 1) for end in ends)
    return whole, *ends


def _bounded(x: Any, bound: float | None) -> Any:
    return x if bound is None else jnp.clip(x, -bound, bound)


def _given(inputs: Sequence[Value], count: int) -> list[Value]:
    """As many inputs, those that are left out as None."""
    return [*inputs, *[None] * (count - len(inputs))]


@operator("RNN")
def rnn(call: Call, *inputs: Value) -> tuple[Value, ...]:
    def step(states: Any, share: Any, r: Any, rb: Any, functions: Any, bound: Any) -> Any:
        (h,) = states
        return (functions[0](_bounded(share + h @ r + rb, bound)),)

    return _recurrent(call, ("Tanh",), 1, step, _given(inputs, 6))


@operator("GRU")
def gru(call: Call, *inputs: Value) -> tuple[Value, ...]:
    before = bool(call.attribute("linear_before_reset"))

    def step(states: Any, share: Any, r: Any, rb: Any, functions: Any, bound: Any) -> Any:
        (h,) = states
        f, g = functions
        size = h.shape[-1]
        recurrent = h @ r[:, : 2 * size] + rb[: 2 * size]
        z = f(_bounded(share[:, :size] + recurrent[:, :size], bound))
        reset = f(_bounded(share[:, size : 2 * size] + recurrent[:, size:], bound))
        last = share[:, 2 * size :]
        if before:
            new = last + reset * (h @ r[:, 2 * size :] + rb[2 * size :])
        else:
            new = last + (reset * h) @ r[:, 2 * size :] + rb[2 * size :]
        return ((1 - z) * g(_bounded(new, bound)) + z * h,)

    return _recurrent(call, ("Sigmoid", "Tanh"), 3, step, _given(inputs, 6))


@operator("LSTM")
def lstm(call: Call, *inputs: Value) -> tuple[Value, ...]:
    *rest, peepholes = _given(inputs, 8)
    coupled = bool(call.attribute("input_forget"))
    if peepholes is not None:
        call.lacks("LSTM with peepholes")

    def step(states: Any, share: Any, r: Any, rb: Any, functions: Any, bound: Any) -> Any:
        h, c = states
        f, g, out = functions
        gates = share + h @ r + rb
        i, o, forget, new = jnp.split(gates, 4, -1)
        i = f(_bounded(i, bound))
        forget = 1 - i if coupled else f(_bounded(forget, bound))
        c = forget * c + i * g(_bounded(new, bound))
        o = f(_bounded(o, bound))
        return o * out(c), c

    default = ("Sigmoid", "Tanh", "Tanh")
    return _recurrent(call, default, 4, step, rest)
