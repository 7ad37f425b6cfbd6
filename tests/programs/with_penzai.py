"""penzai: named arrays as results, and a network whose parameters are bound."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from penzai import pz

MANIFESTS = {
    "named": """
        [entry_points.named]
        function = "with_penzai:named"
        inputs.x = { shape = [3, 4], dtype = "float32" }
    """,
}


def named(x):
    rows = pz.nx.wrap(x).tag("rows", "columns")
    weights = pz.nx.wrap(jnp.arange(4.0)).tag("columns")
    sums = pz.nx.nmap(jnp.sum)((rows * weights).untag("columns"))
    return {"rows": rows, "sums": sums, "soft": pz.nx.nmap(jax.nn.softmax)(rows.untag("columns"))}


def fresh_named(rng):
    return {"x": rng.normal(size=(3, 4)).astype(np.float32)}
