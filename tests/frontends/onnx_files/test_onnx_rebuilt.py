"""A second build of an ONNX model only traces it; no result outlives a change of what it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

import onnx
from onnx import helper

from tests.e2e.rebuilt_models import Rebuilt, packages, ran
from tests.frontends.onnx_files.making import simple

W = np.random.default_rng(3).normal(size=(8, 5)).astype(np.float32)


def test_a_second_build_only_traces_and_another_byte_beside_or_within_runs_it_anew(
    tmp_path: Path,
) -> None:
    made = simple([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], (4, 8), w=W)
    onnx.external_data_helper.convert_model_to_external_data(made, location="w", size_threshold=0)
    onnx.save(made, tmp_path / "model.onnx")
    data = tmp_path / "w"
    assert data.stat().st_size >= W.nbytes
    model = Rebuilt(tmp_path, "model.onnx", (tmp_path / "model.onnx").read_bytes())
    first = model.build()
    assert {"onnx", "protobuf"} <= packages(first)
    assert ran(model.build()).keys() == {"capture", "pack"}
    model.replace(data, W.tobytes()[:8], W.tobytes()[:7] + b"\x3f")
    beside = model.build()
    assert ran(beside)["capture"] == ("file w changed",)
    assert beside.bundle.root_digest != first.bundle.root_digest
    model.replace(model.file, b"product", b"produce")
    assert ran(model.build())["capture"] == ("file model.onnx changed",)
    model.tighten()
    assert "parity of cpu-x86-64-v3" in ran(model.build())
