"""The programs under manifests/ as ONNX graphs: each build compares every executable with plain
JAX, and each load every fixture.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import aotc_runtime
from aotc.pipeline.build import build
from aotc.signing.signer import LocalSigner
from tests.conftest import MANIFESTS
from tests.hostile.tampering import policy_for

OPERATORS = {
    "digits": {"FusedGemm": 2, "Gemm": 1, "Softmax": 1, "ArgMax": 1},
    "vision": {"Conv": 21, "Relu": 19, "Softmax": 1},
    "lm": {"RMSNormalization": 9, "Gelu": 4, "Softmax": 4, "Gather": 2},
    "train": {},
}
"""What the first executable of a program has of some operators."""


@pytest.mark.parametrize("name", OPERATORS)
def test_a_program_is_built_verified_and_loaded_with_it(name: str, tmp_path: Path) -> None:
    shutil.copytree(MANIFESTS / name, tmp_path / name)
    for needed in ("digits",) if name == "train" else ():
        shutil.copytree(MANIFESTS / needed, tmp_path / needed)
    text = (MANIFESTS / f"{name}.toml").read_text()
    engines = '\nengines = ["onnxruntime"]\n'
    text = text.replace("\n\n", f"{engines}\n", 1) if "\n\n" in text else text
    (tmp_path / f"{name}.toml").write_text(text)
    signer, bundle = LocalSigner.ephemeral(), tmp_path / f"{name}.aotb"
    built = build(tmp_path / f"{name}.toml", output=bundle, signer=signer)
    (manifest,) = built.bundle.manifests.values()
    assert manifest.target.platform == "onnxruntime"
    entry_point = manifest.entry_points[sorted(manifest.entry_points)[-1]]
    found = entry_point.profiles[0].thunks
    assert {each: found[each] for each in OPERATORS[name]} == OPERATORS[name]
    with aotc_runtime.load(bundle, trust=policy_for(signer, name=name)) as loaded:
        assert loaded.report()["compilations"] == 0
        assert loaded.report()["engine"] == "onnxruntime"
