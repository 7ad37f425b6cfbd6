"""Rows that depend on each other, and decisions by a size, whatever the numbers are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax, random
from jax.export import symbolic_shape

from aotc.capture import jax_private, row_flow

B, S = symbolic_shape("b, s", constraints=["b >= 1", "b <= 64", "s >= 1", "s <= 64"])
"""Rows, and what else is padded."""

KEY = random.key(0)
W = jnp.ones((8, 8))


def given(text: str, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    sizes = {"b": B, "s": S}
    return jax.ShapeDtypeStruct([sizes.get(each) or int(each) for each in text.split()], dtype)


ARGUMENTS = {
    "x": given("b 8"),
    "y": given("b s 8"),
    "i": given("b", jnp.int32),
    "m": given("b s", bool),
    "c": given("b 12 8"),
    "p": given("", jnp.int32),
    "k": given("b", KEY.dtype),
}


def until_done(x: Any) -> Any:
    """Append numbers to each row until all are done."""

    def body(state: Any) -> Any:
        rows, ended, k = state
        new = jnp.where(ended, 2, rows.sum(1) * 3 + k)
        return rows.at[:, k].set(new), ended | (new > 3), k + 1

    carry = jnp.full((B, 8), 2.0), x[:, 0] > 9, 0
    return lax.while_loop(lambda s: (s[2] < 8) & ~s[1].all(), body, carry)[0]


def newton(x: Any) -> Any:
    def body(state: Any) -> Any:
        new = 0.5 * (state[0] + x / state[0])
        return new, jnp.max(jnp.abs(new - state[0]))

    return lax.while_loop(lambda s: s[1] > 1e-2, body, (x, jnp.inf))[0]


def arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def coupling(function: Callable[..., Any]) -> Any:
    alike = [name == "m" for name in arguments(function)]  # a mask of the loader
    return row_flow.split_coupling(traced(function).jaxpr, "b", alike)


def traced(function: Callable[..., Any]) -> Any:
    names = arguments(function)
    with jax_private.questions(lambda frame, does: None, Path(__file__).parent):
        return jax_private.without_unused(jax.make_jaxpr(function)(*map(ARGUMENTS.get, names)))


SPLIT = [
    *(lambda x: jnp.tanh(x @ W), lambda x: jax.nn.softmax(x, 1), lambda i: W[i % 8]),
    *(
        lambda x: jax.nn.standardize(x, axis=1),
        lambda x: jnp.median(x, 1),
        lambda x: jnp.stack([x, x]),
    ),
    *(lambda x, i: x[jnp.arange(B), i], lambda x, i: x.at[jnp.arange(B), i].set(1.0)),
    *(lambda x, i: jnp.take_along_axis(x, i[:, None], 1), lambda x: jnp.argsort(x, 1)),
    lambda x, i: jax.vmap(lambda r, n: lax.dynamic_update_slice(r, r[:2], (n,)))(x, i),
    lambda x: jax.vmap(lambda r: lax.while_loop(lambda c: c.sum() > 1, jnp.sin, r))(x),
    *(lambda x: lax.map(jnp.sort, x), lambda x: lax.top_k(x, 3), lambda x: jnp.flip(x, 1)),
    lambda x: lax.scan(lambda c, r: (c + r, c), jnp.zeros(B), x.T),
    lambda y, m: jnp.where(m[:1, :, None], y, 0).sum(1) / m.sum(1)[:, None],
    lambda y, m: jax.nn.dot_product_attention(*3 * [y[:, :, None]], mask=m[:, None, None]),
    *(
        lambda x: lax.associative_scan(jnp.maximum, x, axis=1) + jnp.cumsum(x, 1),
        lambda y: (y.reshape(-1, 8) @ W).reshape(y.shape),
    ),
    lambda x: jnp.repeat(x, 3, axis=0).reshape(-1, 3, 8).sum(1),
    *(lambda k: jax.vmap(random.normal)(k), lambda x: x + random.normal(KEY, (8,))),
    lambda x: lax.conv_general_dilated(x[:, None], jnp.ones((1, 1, 3)), (1,), [(1, 1)]),
    lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3), (1, 1), "SAME"),
    *(lambda x: jnp.pad(x, ((0, 0), (1, 1))), lambda x: jax.nn.relu(jax.checkpoint(jnp.sin)(x))),
    lambda x, i: jax.vmap(lambda r, n: lax.switch(n, [jnp.sin, jnp.cos], r))(x, i),
    *(
        lambda x: jax.vmap(jnp.searchsorted)(x, x),
        lambda x: lax.fori_loop(0, 5, lambda _, x: -x, x),
    ),
    lambda c, x, p: (c.at[:, p].set(x), lax.dynamic_update_slice(c, x[:, None], (0, p, 0))),
    *(lambda x: jax.grad(lambda x: (x**2).sum())(x), lambda i: jax.nn.one_hot(i, 10)),
    *(lambda y, i: y[jnp.arange(B), :, i], lambda x: x[jnp.arange(B)] + jnp.ones((B, 8)) * 3),
    *(
        lambda x, i: x[jnp.arange(B)[:, None], i[:, None] + jnp.arange(3)],
        lambda x: x.at[:, 0].set(1),
    ),
    *(lambda y: jnp.moveaxis(y, 1, 0), lambda y: y.reshape(B, -1), lambda x: jnp.digitize(x, W[0])),
    lambda x: jax.vmap(lambda r: jnp.linalg.solve(jnp.eye(8) + r[:, None] * r, r))(x),
    *(lambda x: jnp.linalg.solve(W, x.T).T, lambda x: jnp.fft.fft(x, axis=1).real),
]

COUPLED = [
    *(lambda x: jnp.where(jnp.asarray(B) == 12, -x, x), lambda x: x - x.mean(0), newton),
    *(lambda x: (x[:, :1] == x[:, 0]).any(1), lambda i: jnp.tril(i[:, None] == i, -1).any(1)),
    *(lambda x: jnp.where((x < -50).any(), -x, x), lambda x: jnp.where(x == x[::-1], 0, x)),
    lambda x: jnp.where(jnp.arange(B)[:, None] < 1000, x, 0),
    *(lambda i: jnp.argsort(jnp.argsort(i)), lambda i: jnp.cumsum(i == 77), lambda x, i: x[i]),
    lambda x: x.sum(),
    *(lambda x, i: jax.ops.segment_sum(x, i, num_segments=9)[i], lambda x: x == x[:1]),
    *(lambda i: jnp.zeros(9).at[i].add(1)[i] > 1, lambda i: jnp.zeros(B).at[i].add(1)),
    *(lambda i: jnp.unique(i, size=5).sum() + i, lambda x: x == jnp.roll(x, 1, 0)),
    lambda x: x == jnp.pad(x, ((1, 0), (0, 0)))[:-1],
    *(lambda x: x == lax.pad(x, 0.0, ((1, -1, 0), (0, 0, 0))), lambda x: x == x.reshape(8, -1).T),
    *(lambda x, i: (jax.nn.one_hot(i, 10).T @ x)[i], lambda x: x + jnp.linalg.svd(x)[1].max()),
    lambda x: lax.scan(lambda c, r: (jnp.maximum(c, r), c), W[0], x)[1],
    lambda x: lax.scan(lambda c, r: (c + 1, r * (c < 500)), 0, x)[1],
    lambda x: lax.associative_scan(jnp.maximum, x),
    lambda x: lax.map(lambda r: (r == x).all(1).sum(), x),
    *(lambda x: x * (jnp.ones(B).sum() == 12), lambda y, m: jnp.where(m, 0, m.sum())),
    lambda x: lax.cond((x > 1e6).any(), jnp.sin, jnp.cos, x),
    *(lambda x: random.bernoulli(KEY, 1e-6, x.shape), lambda x: random.split(KEY, B)),
    lambda i: jax.vmap(lambda n: random.normal(random.fold_in(KEY, n)))(jnp.arange(B) + 0 * i),
    lambda x: lax.reduce_window(x, 0.0, lax.max, (3, 1), (1, 1), "SAME"),
    lambda x: lax.fori_loop(0, x.shape[0], lambda _, x: x * 1.01, x),
    lambda c, x, p: lax.dynamic_update_slice(c, x[:1, None], (p, 0, 0)),
    until_done,
    lambda x: lax.while_loop(lambda x: (x > 1).any(), lambda x: jnp.where(x > 1, x / 2, x), x),
    # Rows by a number that is not their own, and values that depend on it.
    *(lambda x: x[jnp.maximum(jnp.arange(B) - 1, 0)], lambda x: x[jnp.arange(B)[::-1]]),
    *(lambda c, i: c.reshape(B, -1)[i, jnp.arange(B)], lambda x: x[jnp.arange(B), jnp.arange(B)]),
    *(lambda x, i: x[jnp.where(i > 0, jnp.arange(B), 0)], lambda x: x[jnp.arange(B, dtype="i1")]),
    *(lambda x: x.reshape(-1)[jnp.arange(B) * 8 + 7], lambda x: W[jnp.arange(B)] + x),
    lambda x: lax.while_loop(
        lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * (jnp.arange(B) < s[0])[:, None]), (0, x)
    )[1],
    # Rows of what has none, and sums over rows that are all alike.
    *(lambda x: jnp.zeros((64, 8))[:B] + x, lambda x: x + jnp.zeros((B, 8)).at[0].set(1)),
    *(lambda x: jnp.ones((B, B)) @ x, lambda x: x * (jnp.ones(B) @ jnp.ones(B))),
    lambda x: x * jnp.ones(B).at[5].get(mode="fill", fill_value=0),
    *(lambda x: x * jnp.cumsum(jnp.ones(B))[:, None], lambda x: jnp.linalg.qr(x)[0]),
    lambda x: x + jnp.concatenate([jnp.zeros((1, 8)), jnp.ones((B - 1, 8))]),
    lambda x: lax.map(lambda row: row * x, x)[:, 0],
    lambda x: x[jnp.arange(2 * B).reshape(B, 2)].sum(1),
    # What mixes under names that say nothing about it.
    *(
        lambda x: jnp.tile(x, (3, 1)).reshape(-1, 3, 8).sum(1),
        lambda x: jax.nn.softmax(x - x.max()),
    ),
    lambda x: jax.scipy.sparse.linalg.cg(lambda v: 2 * v, x)[0],
    lambda x: jax.ffi.ffi_call("kernel", jax.ShapeDtypeStruct(x.shape, x.dtype))(x),
]

N = jnp.asarray
PADDED = [
    *(
        lambda y: random.bernoulli(KEY, 0.5, (S, 8)),
        lambda y: lax.fori_loop(0, S, lambda _, y: -y, y),
    ),
    lambda y, m: jnp.where(m[..., None], y, 0).mean(1) * (S / m.sum(1)[:, None]),
    lambda y: y[:, -1] + jnp.var(y, axis=1, ddof=1) / jnp.maximum(N(S), 1) + y.max(1),
    lambda y: y / jnp.sqrt(S) + jnp.arange(S)[:, None] / S,
    lambda y: jnp.where(N(B) == 12, -y, y),
    lambda y: lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, -s[1]), (N(S), y))[1],
    *(lambda y: y / jnp.ones(S).sum(), lambda y: y * (jnp.arange(S) < 5)[:, None]),
    lambda y: y + jnp.tril(jnp.ones((S, S))).sum(1)[:, None] / jnp.arange(S).max(),
    lambda y: jnp.where(jnp.arange(S)[:, None] >= jnp.arange(S), y @ y.mT, 0),
]

DECIDING = [
    *(lambda y: jnp.where(N(S) == 12, y, -y), lambda y: y * jnp.clip(N(S), 11, 12)),
    *(lambda y: y * jnp.ones(99).at[12].set(3)[N(S)], lambda y: y * jnp.sign(N(S) - 12.5)),
    lambda y: y * lax.switch(N(S) - 11, [lambda: 1, lambda: 2, lambda: 1]),
    *(lambda y: y * (jnp.full(S, N(S)) == 12)[:, None], lambda y: y * (N(6.0) == S / 2)),
    lambda y: lax.scan(lambda c, r: (c, r * (N(S) == 12)), 0, y)[1],
    *(lambda y: lax.cond(N(S) == 12, jnp.sin, jnp.cos, y), lambda y: y * (N(S) % 2 == 0)),
    *(lambda y: random.bernoulli(KEY, 1e-6, y.shape), lambda y: y + random.normal(KEY, (8, S)).T),
    lambda y: random.bits(random.key(0, impl="rbg"), (S,)),
    *(lambda y: y * (jnp.ones(S).sum() == 12), lambda y: y * (jnp.ones((S, 8)).sum(0) == 12)),
    *(lambda y: y * (jnp.arange(S)[-1] == 11), lambda y: y * (jnp.arange(S).max() == 11)),
    *(lambda y: y * (jnp.ones(S) @ jnp.ones(S) == 12), lambda y: y * (jnp.eye(S).sum() == 12)),
    *(
        lambda y: y * jnp.clip(jnp.ones(S).sum(), 11, 12),
        lambda y: y * (jnp.mean(jnp.arange(S)) == 5),
    ),
]


@pytest.mark.parametrize("function", SPLIT)
def test_rows_that_are_apart_may_be_split(function: Callable[..., Any]) -> None:
    assert coupling(function) is None


@pytest.mark.parametrize("function", COUPLED)
def test_rows_that_meet_are_seen_whatever_they_hold(function: Callable[..., Any]) -> None:
    assert coupling(function) is not None


@pytest.mark.parametrize("function", [*PADDED, *DECIDING])
def test_padding_is_refused_where_a_size_decides(function: Callable[..., Any]) -> None:
    found = row_flow.pad_coupling(traced(function), "s", range(1, 65), {"b": 8, "s": 8})
    assert (found is not None) == (function in DECIDING)
