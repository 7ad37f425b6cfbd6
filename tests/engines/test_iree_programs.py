"""IREE's repairs: what it would change in place, and loops whose values it gave one register."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from scripts.search.engine_calls import Case, Lowered
from scripts.search.findings import finding

X = np.random.default_rng(0).normal(size=37).astype(np.float32)
ROWS = X[:36].reshape(4, 9)
PLACES = np.arange(37, dtype=np.int32)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "set at a constant": (lambda x: x.at[3].set(7.0), (X,)),
    "set at places": (lambda x, i: x.at[i].set(7.0), (X, PLACES[3:6])),
    "added at places": (lambda x, i: x.at[i].add(7.0), (X, PLACES[3:6])),
    "added to rows": (lambda x, i: x.at[i].add(1.0), (ROWS, PLACES[1:3])),
    "the larger at places": (lambda x, i: x.at[i].max(0.5), (X, PLACES[3:6])),
    "updated": (
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones(3), (i,)),
        (X, np.asarray(5, np.int32)),
    ),
    "updated twice": (
        lambda x, i: (lax.dynamic_update_slice(x, jnp.ones(3), (i,)), x.at[i].set(0.0)),
        (X, np.asarray(5, np.int32)),
    ),
    "updated in a loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c.at[i].add(c[i]), x), (X,)),
    "halves": (lambda x, i: (x.at[i].set(7.0), x), (X.astype(np.float16), PLACES[3:6])),
    "booleans": (lambda x, i: (x.at[i].set(True), x), (X > 0, PLACES[3:6])),
    "bytes": (lambda x, i: (x.at[i].set(7), x), ((X * 50).astype(np.int8), PLACES[3:6])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_neither_arguments_change_nor_what_others_read(name: str) -> None:
    function, inputs = PROGRAMS[name]
    lowered = Lowered(Case(name, function, False, (), {"once": inputs, "twice": inputs}))
    assert finding("iree", lowered).found in ("same", "near")


RISING = np.linspace(0.1, 1.0, 15, dtype=np.float32).reshape(3, 5)
TWICE, NEVER = np.asarray(2, np.int32), np.asarray(0, np.int32)


def halved(x: Any, times: Any) -> Any:
    """Return a value of a loop that runs a number of times known at the call alone."""
    start = (times, jnp.sin(x))
    return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 0.5 + x), start)[1]


def doubled(x: Any) -> Any:
    """Return a value of a loop that ends by its own numbers."""
    return lax.while_loop(lambda s: s.sum() < 100, lambda s: s * 2 + 1, jnp.sin(x))


def running(rows: Any) -> Any:
    """Return sums of the rows before each row."""
    return lax.scan(lambda carry, row: (carry + row, carry * 2), jnp.zeros(5), rows)[1]


def repeated(start: Any, added: Any) -> Any:
    """Return a value of a loop that runs three times."""
    return lax.fori_loop(0, 3, lambda _, s: jnp.sin(s) + added, start)


LOOPS: dict[str, tuple[Callable[..., Any], bool]] = {
    "map": (lambda x, n: lax.map(lambda row: row * 2, halved(x, n)) + 1, True),
    "map before a product": (
        lambda x, n: lax.map(lambda row: row * 2, halved(x, n)) @ jnp.ones((5, 2)),
        True,
    ),
    "scan": (lambda x, n: jnp.sin(running(halved(x, n))), True),
    "scan by its numbers": (lambda x: jnp.sin(running(doubled(x))), False),
    "another loop": (lambda x: repeated(jnp.cos(x), doubled(x)) + 1, False),
}


@pytest.mark.parametrize("name", LOOPS)
def test_values_of_two_loops_are_kept_apart(name: str) -> None:
    function, is_counted = LOOPS[name]
    trials = {
        "runs": (RISING, TWICE) if is_counted else (RISING,),
        "never runs": (RISING, NEVER) if is_counted else (RISING + 50,),
    }
    found = finding("iree", Lowered(Case(name, function, False, (), trials)))
    assert found.found in ("same", "near"), found
