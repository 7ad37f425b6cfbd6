"""The text classifier under manifests/, built and served as Keras computes it on PyTorch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import aotc_runtime

pytest.importorskip("keras", reason="Keras is not installed: `make test-keras` installs it")

FOLDER = Path(__file__).parents[3] / "manifests" / "texts"


def test_a_text_classifier_answers_as_keras_does(built: Callable[[str], tuple[Path, Path]]) -> None:
    bundle, policy = built("texts")
    words = np.load(FOLDER / "inputs.npz")["words"]
    expected = np.load(FOLDER / "expected.npz")["result[batch=8]"]
    loaded = aotc_runtime.load(bundle, trust=policy)
    np.testing.assert_allclose(loaded["classify"](words), expected, rtol=1e-5, atol=1e-6)
    loaded.close()
