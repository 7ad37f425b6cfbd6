"""Small programs over a mesh of two by two devices, and their manifest."""

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

MANIFEST = """
schema = 1
name = "meshes"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
mesh = { data = 2, model = 2 }

[target.cpu-x86-64-v3]
devices = 4

[weights.params]
init = "program:weights"

[weights.params.shardings]
rows = ["model", []]
"col*" = [[], ["data", "model"]]
odd = ["data", []]

[dimensions.batch]
range = [1, 8]
profiles = [4, 8]

[entry_points.mixed]
function = "program:mixed"
bind = { params = "params" }
inputs.x = { shape = [8, 512], dtype = "float32" }
inputs.scale = { shape = [], dtype = "float32" }
inputs.half = { shape = [4, 6], dtype = "bfloat16" }
tolerance = { rtol = 1e-4, atol = 1e-4 }

[entry_points.mixed.shardings]
inputs = { x = [["model", "data"], []], half = ["data", "model"] }
outputs = { hidden = [[], "model"], normed = [["data", "model"], []], half = [[], "data"] }

[entry_points.step]
function = "program:step"
donate = ["state"]
inputs.state.moment = { shape = ["batch", 64], dtype = "float32" }
inputs.state.value = { shape = ["batch", 64], dtype = "float32" }
inputs.state.count = { shape = [], dtype = "int32" }
inputs.change = { shape = ["batch", 64], dtype = "float32" }
out_of_profile.batch = "split"

[entry_points.step.fixtures]
ranges = { "state/count" = [0, 9] }

[entry_points.step.shardings]
inputs = { "state/mom*" = ["data", "model"], "*/value" = ["data", "model"], change = ["data", []] }
outputs = { moment = ["data", "model"], value = ["data", "model"] }

[entry_points.noise]
function = "program:noise"
inputs.keys = { shape = [4], dtype = "key<fry>" }
inputs.low = { shape = [], dtype = "float32" }

[entry_points.noise.shardings]
inputs = { keys = ["data"] }
outputs = { 0 = ["data", []], 1 = ["model"] }

[entry_points.turned]
function = "program:turned"
inputs.x = { shape = [4, 8], dtype = "float32" }

[entry_points.turned.shardings]
inputs = { x = ["data", "model"] }
outputs = { result = ["model", "data"] }
"""
