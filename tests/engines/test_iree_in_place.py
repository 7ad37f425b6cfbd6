"""IREE scatters and updates in place: nobody else may see it, within a program or after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from .search import Case, Lowered, RefusedError, finding

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
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_neither_arguments_change_nor_what_others_read(name: str) -> None:
    function, inputs = PROGRAMS[name]
    lowered = Lowered(Case(name, function, False, (), {"once": inputs, "twice": inputs}))
    assert finding("iree", lowered).found in ("same", "near")


@pytest.mark.parametrize("sorts", [jnp.sort, jnp.argsort, lambda x: lax.top_k(x, 5)])
def test_sorts_are_refused_by_name(sorts: Callable[..., Any]) -> None:
    lowered = Lowered(Case("sorts", sorts, False, (), {"once": (X,)}))
    with pytest.raises(RefusedError, match=r"stablehlo\.sort"):
        finding("iree", lowered)
