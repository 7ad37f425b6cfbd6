"""Recurrent layers, as `lax.scan` over time."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from aotc.frontends.pytorch.operators.torch_operator_table import Arguments, Family, first

FAMILY = Family()
op = FAMILY

type States = tuple[Array, ...]
type Cell = Callable[[Array, States, Sequence[Array]], States]
"""Compute new states from the input's gates, the states and the transposed recurrent weights."""


def _trained(given: Arguments) -> str | None:
    if given.get("train") and given.get("dropout"):
        return "dropout in training, random numbers"
    return None


def _gates(h: Array, recurrent: Sequence[Array]) -> Array:
    weight, *bias = recurrent
    return sum(bias, start=h @ weight)


def _lstm_cell(x: Array, states: States, recurrent: Sequence[Array]) -> States:
    h, c = states
    i, f, g, o = jnp.split(x + _gates(h, recurrent), 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _gru_cell(x: Array, states: States, recurrent: Sequence[Array]) -> States:
    (h,) = states
    r, z, n = jnp.split(x, 3, axis=-1)
    hr, hz, hn = jnp.split(_gates(h, recurrent), 3, axis=-1)
    update = jax.nn.sigmoid(z + hz)
    new = jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn)
    return ((h - new) * update + new,)


def _plain_cell(activation: Callable[[Array], Array]) -> Cell:
    return lambda x, states, recurrent: (activation(x + _gates(states[0], recurrent)),)


def _direction(
    x: Array, states: States, weights: Sequence[Array], cell: Cell, backward: bool
) -> tuple[Array, States]:
    """Compute one direction of a layer over time, the first axis.

    `weights` are of the input, of the recurrence, then both biases if any, then of the projection.
    """
    into, recurrent, *rest = weights
    biases, projection = (rest[:2], rest[2:]) if len(rest) >= 2 else ((), rest)
    # Engines transpose in every step what is transposed in one.
    fixed, projected, gates = [recurrent.T, *biases[1:]], [p.T for p in projection], x @ into.T
    if biases:
        gates = gates + biases[0]

    def step(carry: States, now: Array) -> tuple[States, Array]:
        new = cell(now, carry, fixed)
        if projected:
            new = (new[0] @ projected[0], *new[1:])
        return new, new[0]

    last, every = lax.scan(step, states, gates, reverse=backward)
    return every, last


def _layers(
    input: Array,
    hx: Array | Sequence[Array],
    params: Sequence[Array],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    cell: Cell,
) -> tuple[Array, ...]:
    """Return the results over time, then each state after the last step."""
    x, states = input, [hx] if isinstance(hx, Array) else list(hx)
    batched = x.ndim == 3
    if not batched:
        x, states = x[:, None], [state[:, None] for state in states]
    elif batch_first:
        x = x.swapaxes(0, 1)
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    assert each >= (4 if has_biases else 2)
    lasts: list[States] = []
    for layer in range(num_layers):
        made = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = params[number * each : (number + 1) * each]
            own = tuple(state[number] for state in states)
            every, last = _direction(x, own, weights, cell, direction == 1)
            made.append(every)
            lasts.append(last)
        x = jnp.concatenate(made, -1) if len(made) > 1 else made[0]
    ends = [jnp.stack(parts) for parts in zip(*lasts, strict=True)]
    if not batched:
        return x[:, 0], *(end[:, 0] for end in ends)
    return (x.swapaxes(0, 1) if batch_first else x), *ends


def _one_step(
    input: Array,
    hx: Array | Sequence[Array],
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None = None,
    b_hh: Array | None = None,
    *,
    cell: Cell,
) -> States:
    gates = input @ w_ih.T if b_ih is None else input @ w_ih.T + b_ih
    states = (hx,) if isinstance(hx, Array) else tuple(hx)
    return cell(gates, states, [w_hh.T] if b_hh is None else [w_hh.T, b_hh])


op("lstm_cell")(partial(_one_step, cell=_lstm_cell))
op("lstm.input", refuse=_trained)(partial(_layers, cell=_lstm_cell))
_CELLS = {
    "gru": _gru_cell,
    "rnn_tanh": _plain_cell(jnp.tanh),
    "rnn_relu": _plain_cell(lambda x: jnp.maximum(x, 0)),
}
for _name, _cell in _CELLS.items():
    op(f"{_name}_cell")(first(partial(_one_step, cell=_cell)))
    op(f"{_name}.input", refuse=_trained)(partial(_layers, cell=_cell))
