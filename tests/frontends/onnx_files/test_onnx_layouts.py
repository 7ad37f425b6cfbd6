"""Weights of ONNX models are stored in the order of axes that XLA's code reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

from onnx import helper

from aotc.capture.model_entry_points import open_models
from aotc.capture.weight_layouts import laid_out
from aotc.config.build_manifest import read_build_manifest
from tests.frontends.onnx_files.making import simple

N = helper.make_node
MANIFEST = """
schema = 1
name = "m"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]

[entry_points.m]
source = "m.onnx"
"""


def test_kernels_of_convolutions_are_and_other_weights_are_as_the_file_has_them(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    given = {
        "kernel": rng.normal(size=(5, 3, 2, 4)).astype(np.float32),
        "table": rng.normal(size=(1, 1, 8, 6)).astype(np.float32),
        "grown": rng.normal(size=(5, 7, 3, 2)).astype(np.float32),
    }
    nodes = [
        N("Conv", ["x", "kernel"], ["a"]),
        N("Add", ["a", "table"], ["b"]),
        N("ConvTranspose", ["b", "grown"], ["y"]),
    ]
    made = simple(nodes, (1, 3, 9, 9), **given)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    (tmp_path / "m.toml").write_text(MANIFEST)
    models = laid_out(open_models(read_build_manifest(tmp_path / "m.toml")), {"m": {}})
    opened = models.opened["m"]
    assert opened.orders["kernel"] == (2, 3, 1, 0)  # height, width, in, out
    assert "table" not in opened.orders
    stored = opened.model.weights
    assert np.array_equal(stored["kernel"], given["kernel"].transpose(2, 3, 1, 0))
    assert np.array_equal(stored["table"], given["table"])
    x = rng.normal(size=(1, 3, 9, 9)).astype(np.float32)
    plain = open_models(read_build_manifest(tmp_path / "m.toml")).opened["m"].model
    found = opened.model.function(dict(stored), x)["y"]
    np.testing.assert_allclose(found, plain.function(dict(plain.weights), x)["y"], rtol=1e-5)
