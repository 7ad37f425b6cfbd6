"""Functions that return what they were given: nothing in a result is a user's array or a weight."""

from __future__ import annotations

from pathlib import Path

import jax_free
import numpy as np
import pytest
from jax_free import Arrays
from small_programs import build_signed

from aotc_runtime import LoadedBundle

PROGRAM = """
import jax.numpy as jnp

def weights():
    return {"table": jnp.arange(16.0)}

def same(p, x):
    return {"table": p["table"], "x": x, "again": x, "part": x[:2], "shaped": x.reshape(2, -1)}

def state():
    return {"größe": jnp.ones(3), "": {"b": jnp.ones(2)}, "mlp/~/linear_0": {"w": jnp.ones(1)}}

def keyed(state):
    return state
"""

MANIFEST = """
schema = 1
name = "identity"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]

[weights.p]
init = "program:weights"

[entry_points.same]
function = "program:same"
bind = { p = "p" }
inputs.x = { shape = [4096], dtype = "float32" }

[entry_points.keyed]
function = "program:keyed"
inputs.state = { like = "program:state" }
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build_signed(tmp_path_factory.mktemp("identity"), "identity", PROGRAM, MANIFEST)


def call_and_overwrite(bundle: LoadedBundle, _: Arrays) -> Arrays:
    same = bundle["same"]
    space = np.zeros(4096 * 4 + 64, np.uint8)
    # Aligned as XLA likes it, so that it could use the memory in place.
    start = -space.ctypes.data % 64
    x = space[start : start + 4096 * 4].view(np.float32)
    kept = np.arange(4096, dtype=np.float32)
    for call in (same, same.on_device):
        x[:] = kept
        result = call(x)
        x[:] = -1
        arrays = {name: np.asarray(value) for name, value in result.items()}
        for name in ("x", "again", "part", "shaped"):
            flat = arrays[name].reshape(-1)
            assert np.array_equal(flat, kept[: flat.size]), name
            assert not np.shares_memory(flat, x), name
    return {"table": arrays["table"]}


def test_results_share_memory_with_nobody(bundle: tuple[Path, Path], tmp_path: Path) -> None:
    outputs, _ = jax_free.run(call_and_overwrite, bundle, tmp_path, {})
    assert outputs["table"].tolist() == list(range(16))


def call_by_key(bundle: LoadedBundle, _: Arrays) -> Arrays:
    state = {
        "größe": np.float32([1, 2, 3]),
        "": {"b": np.float32([4, 5])},
        "mlp/~/linear_0": {"w": np.float32([6])},
    }
    result = bundle["keyed"](state)
    assert result.keys() == state.keys()
    return {"größe": result["größe"], "b": result[""]["b"], "w": result["mlp/~/linear_0"]["w"]}


def test_structures_of_functions_may_have_any_text_as_a_key(
    bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    outputs, _ = jax_free.run(call_by_key, bundle, tmp_path, {})
    assert {name: array.tolist() for name, array in outputs.items()} == {
        "größe": [1, 2, 3],
        "b": [4, 5],
        "w": [6],
    }
