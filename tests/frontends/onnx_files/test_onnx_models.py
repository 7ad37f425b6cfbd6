"""Whole models: of the standard, of scikit-learn, XGBoost, LightGBM, torch and TensorFlow."""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

import onnx

from tests.frontends.onnx_files.making import read, run

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
WRITTEN = sorted(Path(os.environ.get("AOTC_ONNX_TORCH") or "/nowhere").glob("*.onnx"))

CLASSICAL = 67
"""How many models of scikit-learn, XGBoost and LightGBM there are."""


def expected(made: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return what onnxruntime computes."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(4)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def far(found: Any, wanted: Any) -> float:
    """The largest difference, over the largest number or 1."""
    if isinstance(wanted, list):  # of maps, which ZipMap makes
        wanted = np.array([[row[label] for label in sorted(row)] for row in wanted])
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    if not wanted.size:
        return 0.0
    scale = max(1.0, float(np.abs(wanted).max()))
    return float(np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()) / scale


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_networks_of_the_standard_are_as_onnxruntime_computes_them(path: Path) -> None:
    made = onnx.load(path)
    (entry,) = read(made).inputs
    x = np.random.default_rng(0).random(entry.shape, np.float32)
    (found,) = run(made, x).values()
    (wanted,) = expected(made, {entry.name: x}).values()
    assert far(found, wanted) <= 1e-5


def test_classical_models_are_as_onnxruntime_computes_them() -> None:
    for needed in ("skl2onnx", "onnxmltools", "xgboost", "lightgbm"):
        pytest.importorskip(needed)
    from tests.frontends.onnx_files import classical_models

    wrong, count = [], 0
    for name, made, x in classical_models.every():
        count += 1
        found = run(made, x)
        wanted = expected(made, {made.graph.input[0].name: x})
        for output, array in wanted.items():
            distance = far(found[output], array)
            if not distance <= 1e-5:
                wrong.append((name, output, distance))
        jax.clear_caches()
    assert not wrong
    assert count == CLASSICAL


@pytest.mark.skipif(
    not WRITTEN, reason="no models: scripts.models.onnx_of_torch and onnx_of_tensorflow make them"
)
@pytest.mark.parametrize("path", WRITTEN or [Path()], ids=lambda path: path.stem)
def test_models_of_torch_and_tensorflow_are_as_these_compute_them(path: Path) -> None:
    recorded = np.load(path.with_suffix(".npz"))
    made = onnx.load(path)
    got = read(made)
    inputs = [recorded[f"input{i}"] for i in range(len(got.inputs))]
    given = [x.astype(np.int32) if x.dtype == np.int64 else x for x in inputs]
    found = run(made, *given)
    for i, output in enumerate(made.graph.output):
        assert far(found[output.name], recorded[f"result{i}"]) <= 1e-5
    varying = {size for entry in got.inputs for size in entry.shape if isinstance(size, str)}
    # tf2onnx gives each size that varies a name of its own, also where they are the same.
    if varying and made.producer_name != "tf2onnx":
        _require_symbolic(got)


def _require_symbolic(got: Any) -> None:
    """The model is traced once for all sizes."""
    names = {size for entry in got.inputs for size in entry.shape if isinstance(size, str)}
    scope = jax.export.SymbolicScope([f"{name} <= 64" for name in sorted(names)])
    arguments = []
    for entry in got.inputs:
        text = ",".join(str(size) for size in entry.shape)
        shape = jax.export.symbolic_shape(text, scope=scope)
        dtype = np.int32 if entry.dtype == np.int64 else entry.dtype
        arguments.append(jax.ShapeDtypeStruct(shape, dtype))
    jax.export.export(jax.jit(got.function))(dict(got.weights), *arguments)
