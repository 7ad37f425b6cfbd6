"""`aotc record-expected`: ONNX Runtime, and ONNX's reference evaluator, as the reference."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

from aotc.commands.record_expected import model_recorder
from aotc.commands.record_expected.recording_process import record

MANIFESTS = Path(__file__).parents[3] / "manifests"


def test_onnxruntime_gives_what_pytorch_gave() -> None:
    pytest.importorskip("onnxruntime")
    recorded = record(MANIFESTS / "bert.toml", None, Path(sys.executable))
    assert recorded.framework.startswith("onnxruntime ")
    expected = np.load(MANIFESTS / "bert" / "expected.npz")
    assert recorded.arrays.keys() == {*expected.files}
    for name, array in recorded.arrays.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


def test_so_does_the_reference_evaluator() -> None:
    framework, run = model_recorder._onnx_reference(str(MANIFESTS / "bert" / "bert.onnx"))
    found = run(dict(np.load(MANIFESTS / "bert" / "inputs.npz")))
    assert framework.startswith("onnx.reference ")
    expected = np.load(MANIFESTS / "bert" / "expected.npz")["pooled[batch=4]"]
    np.testing.assert_allclose(found["pooled"], expected, rtol=1e-5, atol=1e-6)
