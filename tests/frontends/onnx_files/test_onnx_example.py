"""The BERT under manifests/, built and served as PyTorch computes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import aotc_runtime

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

FOLDER = Path(__file__).parents[3] / "manifests" / "bert"


def test_a_bert_answers_as_pytorch_does(built: Callable[[str], tuple[Path, Path]]) -> None:
    bundle, policy = built("bert")
    inputs, expected = np.load(FOLDER / "inputs.npz"), np.load(FOLDER / "expected.npz")
    loaded = aotc_runtime.load(bundle, trust=policy)
    found = loaded["encode"](inputs["input_ids"], inputs["attention_mask"])["pooled"]
    np.testing.assert_allclose(found, expected["pooled[batch=4]"], rtol=1e-5, atol=1e-6)
    loaded.close()
