"""Loops whose condition depends on data, before other loops: IREE gave their values one register.

Without `separate_registers` of IREE's worker each call of these programs fails.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from scripts.search.engine_calls import Case, Lowered
from scripts.search.findings import finding

X = np.linspace(0.1, 1.0, 15, dtype=np.float32).reshape(3, 5)
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


PROGRAMS: dict[str, tuple[Callable[..., Any], bool]] = {
    "map": (lambda x, n: lax.map(lambda row: row * 2, halved(x, n)) + 1, True),
    "map before a product": (
        lambda x, n: lax.map(lambda row: row * 2, halved(x, n)) @ jnp.ones((5, 2)),
        True,
    ),
    "scan": (lambda x, n: jnp.sin(running(halved(x, n))), True),
    "scan by its numbers": (lambda x: jnp.sin(running(doubled(x))), False),
    "another loop": (lambda x: repeated(jnp.cos(x), doubled(x)) + 1, False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_of_two_loops_are_kept_apart(name: str) -> None:
    function, is_counted = PROGRAMS[name]
    trials = {
        "runs": (X, TWICE) if is_counted else (X,),
        "never runs": (X, NEVER) if is_counted else (X + 50,),
    }
    found = finding("iree", Lowered(Case(name, function, False, (), trials)))
    assert found.found in ("same", "near"), found
