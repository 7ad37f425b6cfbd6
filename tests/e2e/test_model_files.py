"""From a model file to the call that it serves, and what its framework says against it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from small_programs import build_trusted

import aotc_runtime
from aotc.base.errors import ParityError
from aotc.bundle.read.bundle_review import review
from aotc.pipeline.build import Built
from aotc_runtime import LoadedBundle
from aotc_runtime.base.errors import AotcError
from aotc_runtime.system.bundle_files import open_bundle
from tests.conftest import manifest_of
from tests.refusals import error_of

MANIFEST = manifest_of("""
name = "model"

[dimensions.n]
range = [1, 4]
profiles = [4]

[entry_points.f]
source = "model.jax"
inputs.arg0 = { shape = ["n", 8] }
out_of_profile = { n = "pad" }
fixtures = { file = "inputs.npz", expected = "expected.npz" }
""")

TORCH = Path(__file__).parents[1] / "unit" / "frontends" / "pytorch" / "files"
W = np.random.default_rng(3).normal(size=(8, 5)).astype(np.float32)
X = np.random.default_rng(4).normal(size=(4, 8)).astype(np.float32)


def by_hand(x: Any) -> Any:
    return np.maximum(x.astype(np.float64) @ W, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (n,) = export.symbolic_shape("n")
    exported = export.export(jax.jit(lambda x: jax.nn.relu(x @ W)))
    serialized = exported(jax.ShapeDtypeStruct((n, 8), jnp.float32)).serialize()
    (folder / "model.jax").write_bytes(serialized)
    (folder / "model.toml").write_text(MANIFEST)
    np.savez(folder / "inputs.npz", arg0=X)
    return folder


def made(folder: Path, name: str) -> tuple[Built, LoadedBundle]:
    """A build of a manifest of that name, and its bundle."""
    bundle = folder / f"{name}.aotb"
    done = build_trusted(folder / f"{name}.toml", bundle)
    return done, aotc_runtime.load(bundle, trust=folder / "trust.toml")


def compared_with(folder: Path, expected: Any) -> tuple[Built, LoadedBundle]:
    np.savez(folder / "expected.npz", **{"result[n=4]": expected})
    return made(folder, "model")


def test_a_model_file_is_built_compared_with_its_framework_and_served(folder: Path) -> None:
    done, loaded = compared_with(folder, by_hand(X))
    model = done.program.entry_points["f"].model
    assert model is not None and model.expected
    for rows in (4, 3):
        found = loaded["f"](X[:rows])
        np.testing.assert_allclose(found, by_hand(X[:rows]), rtol=1e-5, atol=1e-6)
    loaded.close()


def test_results_that_the_framework_did_not_give_are_refused(folder: Path) -> None:
    wrong = by_hand(X)
    wrong[1, 2] += 0.01
    (finding,) = error_of(ParityError, compared_with, folder, wrong).findings
    assert (finding.code, finding.where) == ("AOTC-E950", "f[n=4] result")
    assert finding.found.startswith("1 of 20 elements differ")


KERNEL = manifest_of("""
name = "kernel"

[dimensions.n]
range = [1, 4]
profiles = [2]

[entry_points.f]
source = "convolutions.pt2"
inputs.image = { shape = ["n", 2, 6, 6] }
fixtures = { file = "inputs.npz", expected = "expected.npz" }
""")


def test_weights_in_the_order_of_the_compiler_give_what_torch_gave(tmp_path: Path) -> None:
    (tmp_path / "convolutions.pt2").write_bytes((TORCH / "convolutions.pt2").read_bytes())
    (tmp_path / "kernel.toml").write_text(KERNEL)
    recorded = np.load(TORCH / "convolutions.npz")
    np.savez(tmp_path / "inputs.npz", image=recorded["in/000"])
    results = {f"{name}[n=2]": recorded[f"out/{name}"] for name in ("scores", "features")}
    np.savez(tmp_path / "expected.npz", **results)
    done, loaded = made(tmp_path, "kernel")
    model = done.program.entry_points["f"].model
    assert model is not None and model.orders == {"first.weight": (2, 3, 1, 0)}
    assert model.layers.keys() == {"first", "norm", "last"} and model.layers["last"] > 1
    reviewed = review(open_bundle(tmp_path / "kernel.aotb"), None, datetime.now(UTC))
    stated = reviewed.lines()["f"].layers["convolutions.pt2"]
    assert all("_files.py:" in line for layer in model.layers for line in stated[layer])
    found = loaded["f"](recorded["in/000"])
    np.testing.assert_allclose(found["scores"], recorded["out/scores"], rtol=1e-5, atol=1e-6)
    loaded.close()


COUNTER = manifest_of("""
name = "counter"

[entry_points.start]
source = "counter.pt2"
signature = "initial_state"

[entry_points.step]
source = "counter.pt2"
donate = ["state"]
""")


def test_a_buffer_is_a_state_that_calls_take_and_return(tmp_path: Path) -> None:
    (tmp_path / "counter.pt2").write_bytes((TORCH / "counter.pt2").read_bytes())
    (tmp_path / "counter.toml").write_text(COUNTER)
    _, loaded = made(tmp_path, "counter")
    recorded = np.load(TORCH / "counter.npz")
    state = loaded["start"].on_device()
    for step in range(3):
        before = state["count"]
        found = loaded["step"].on_device(recorded[f"in{step}/000"], state)
        np.testing.assert_allclose(np.asarray(found["result"]), recorded[f"out{step}/"], rtol=1e-6)
        state = found["state"]
        assert np.array_equal(np.asarray(state["count"]), recorded[f"state{step}/count"])
        assert error_of(AotcError, np.asarray, before).code == "AOTC-E631"
    loaded.close()
