"""`aotc record-expected`: PyTorch as the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aotc.commands.record_expected.recording_process import record
from tests.frontends.pytorch.recorded import FOLDER

MANIFESTS = Path(__file__).parents[3] / "manifests"
PYTHON = FOLDER.parent / "venv" / "bin" / "python"

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not PYTHON.exists(), reason="run make test-torch"),
]


def test_pytorch_gives_what_the_model_gave_before_it_was_exported() -> None:
    recorded = record(MANIFESTS / "resnet.toml", None, PYTHON)
    assert recorded.framework.startswith("torch ")
    expected = np.load(MANIFESTS / "resnet" / "expected.npz")
    assert recorded.arrays.keys() == {*expected.files}
    for name, array in recorded.arrays.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5)
