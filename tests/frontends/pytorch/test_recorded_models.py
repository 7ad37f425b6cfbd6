"""Whole models that `torch_models.py` exported, against what torch returned eagerly."""

import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.capture.model_files.frontend_protocol import ModelFile
from aotc.commands.record_expected.recording_process import record
from aotc.frontends.pytorch.pytorch_frontend import PyTorch
from aotc_runtime.base.errors import AotcError
from tests.conftest import manifest_of
from tests.frontends.pytorch.recorded import FOLDER, apart, named
from tests.frontends.pytorch.steps import follow
from tests.refusals import error_of

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="run make test-torch"),
]

CHANGING = sorted(path.stem for path in (FOLDER / "steps").glob("*.pt2"))
MODELS = sorted(path.stem for path in (FOLDER / "models").glob("*.pt2"))

FAR = {"bfloat16": 2**-7}
"""Relative to the largest element. Without a line here 1e-5."""


def test_enough_models_were_exported() -> None:
    assert len(MODELS) >= 90


@pytest.mark.parametrize("name", MODELS or ["none: run make test-torch"])
def test_a_model_returns_what_torch_returned(name: str) -> None:
    path = FOLDER / "models" / f"{name}.pt2"
    model = PyTorch().read(ModelFile(path.name, path.read_bytes(), None, lambda _: b"", False))
    recorded = np.load(path.with_suffix(".npz"))
    function = jax.jit(model.function)
    for suffix in ("", "1"):
        keys = sorted(key for key in recorded if key.startswith(f"in{suffix}/"))
        if not keys:
            continue
        given = [
            jnp.asarray(recorded[key]).astype(jax.dtypes.canonicalize_dtype(spec.dtype))
            for key, spec in zip(keys, model.inputs, strict=True)
        ]
        found = named(function(dict(model.weights), *given))
        start = f"out{suffix}/"
        wanted = {
            key.removeprefix(start): recorded[key] for key in recorded if key.startswith(start)
        }
        assert found.keys() == wanted.keys()
        for key, array in wanted.items():
            assert apart(np.asarray(found[key]), array) <= FAR.get(name, 1e-5), key


@pytest.mark.parametrize("name", CHANGING or ["none: run make test-torch"])
def test_calls_change_a_model_as_they_change_torchs(name: str) -> None:
    path = FOLDER / "steps" / f"{name}.pt2"
    model = PyTorch().read(ModelFile(path.name, path.read_bytes(), None, lambda _: b"", False))
    assert any(each.initial is not None for each in model.inputs)
    assert follow(model, path.with_suffix(".npz")) <= 1e-5


MANIFESTS = Path(__file__).parents[3] / "manifests"
PYTHON = FOLDER.parent / "venv" / "bin" / "python"


@pytest.mark.skipif(not PYTHON.exists(), reason="run make test-torch")
def test_a_named_tuple_is_recorded_for_nested_inputs(tmp_path: Path) -> None:
    path = MANIFESTS.parent / "tests/unit/frontends/pytorch/files/nested.pt2"
    stored, names = np.load(path.with_suffix(".npz")), ("batch/image", "batch/mask", "scale/0")
    np.savez(tmp_path / "in.npz", **dict(zip((*names, "past/0"), stored.values(), strict=False)))
    (tmp_path / "net.toml").write_text(
        manifest_of(f"""
name = "net"
[entry_points.net]
source = "{path}"
inputs.batch = {{ image = {{ shape = [3, 4] }}, mask = {{ shape = [3] }} }}
inputs.scale = [{{ shape = [1] }}]
inputs.past = [{{ shape = [4] }}]
fixtures.file = "in.npz"
""")
    )
    recorded = record(tmp_path / "net.toml", None, PYTHON)
    assert recorded.arrays.keys() == {"logits", "pooled"}
    for array, key in zip(recorded.arrays.values(), ("out/0", "out/1"), strict=True):
        np.testing.assert_allclose(array, stored[key], rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(not PYTHON.exists(), reason="run make test-torch")
def test_a_recorded_reference_is_what_the_model_gave_before_it_was_exported() -> None:
    recorded = record(MANIFESTS / "resnet.toml", None, PYTHON)
    assert recorded.framework.startswith("torch ")
    expected = np.load(MANIFESTS / "resnet" / "expected.npz")
    assert recorded.arrays.keys() == {*expected.files}
    for name, array in recorded.arrays.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not PYTHON.exists(), reason="run make test-torch")
def test_a_model_that_changes_in_calls_is_not_recorded(tmp_path: Path) -> None:
    program = f"""
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
torch.export.save(torch.export.export(model, (torch.ones(2, 3),)), {str(tmp_path / "n.pt2")!r})
"""
    subprocess.run([PYTHON, "-c", program], check=True)
    np.savez(tmp_path / "in.npz", input=np.ones((2, 3), np.float32))
    (tmp_path / "net.toml").write_text(
        manifest_of("""
name = "net"
[entry_points.net]
source = "n.pt2"
inputs.input = { shape = [2, 3] }
fixtures.file = "in.npz"
""")
    )
    refused = error_of(AotcError, record, tmp_path / "net.toml", None, PYTHON)
    assert refused.code == "AOTC-E844" and "model.eval()" in refused.findings[0].found
