"""Small programs over a mesh of two by two devices, and their manifest."""

from pathlib import Path

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

TABLE = np.linspace(-1, 1, 4096, dtype="float32").reshape(8, 512)

def weights():
    rng = np.random.default_rng(3)
    return {
        "rows": jnp.asarray(rng.standard_normal((16, 512), np.float32)),
        "columns": jnp.asarray(rng.standard_normal((512, 16), np.float32)),
        "odd": jnp.asarray(rng.standard_normal((6, 3), np.float32)),
        "whole": jnp.asarray(rng.standard_normal(16, np.float32)),
    }

def mixed(params, x, scale, half):
    hidden = x @ params["rows"].T + params["whole"]
    mesh = jax.sharding.get_abstract_mesh()
    hidden = jax.lax.with_sharding_constraint(
        hidden, jax.sharding.NamedSharding(mesh, P(("model", "data"), None))
    )
    def norm(part):
        return part / jnp.sqrt(jax.lax.psum(jnp.sum(part * part), ("data", "model")))
    normed = jax.shard_map(norm, in_specs=P(("data", "model")), out_specs=P(("data", "model")))(x)
    return {
        "hidden": hidden @ params["columns"].T * scale,
        "normed": normed + TABLE,
        "half": half + half,
        "odd": params["odd"] @ jnp.ones((3, 2)),
        "total": hidden.sum(),
    }

def step(state, change):
    moment = 0.9 * state["moment"] + change
    return {"moment": moment, "value": state["value"] - 0.1 * moment, "count": state["count"] + 1}

def noise(keys, low):
    return jax.vmap(lambda key: jax.random.uniform(key, (4,)))(keys) + low, keys

def turned(x):
    return x.T
"""

MANIFEST = Path(__file__).with_name("meshes.toml").read_text("utf-8")
