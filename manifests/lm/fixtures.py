"""A cache in the middle of a text, for checking `decode` on more than zeros."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from lm.generate import encode
from lm.model import Cache, init, prefill

TEXT = "Ship the program, not the compiler. "


def prompted_cache(batch: int) -> Cache:
    """Return the cache of `prefill` after TEXT, in every row of the batch."""
    cache: Cache = jax.jit(prefill)(init(), encode(TEXT))[1]
    rows: Cache = jax.tree.map(lambda row: jnp.broadcast_to(row, (batch, *row.shape[1:])), cache)
    return rows
