"""The programs under manifests/ on engines that take graphs: each build compares every executable
with plain JAX, and each load every fixture.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from tests.conftest import MANIFESTS
from tests.engines.conftest import ENGINES, Other
from tests.hostile.tampering import policy_for

OPERATORS = {
    ("onnxruntime", "digits"): {"FusedGemm": 2, "Gemm": 1, "Softmax": 1, "If": 1},
    ("onnxruntime", "vision"): {"Conv": 21, "Relu": 19, "Softmax": 1},
    ("onnxruntime", "lm"): {"RMSNormalization": 9, "Gelu": 4, "Softmax": 4, "Gather": 2},
    ("onnxruntime", "train"): {},
    ("openvino", "digits"): {"MatMul": 3, "Relu": 2, "Softmax": 1},
    # Transposes are those of 21 kernels, made at load, and of the image.
    ("openvino", "vision"): {"Convolution": 21, "Relu": 19, "Transpose": 22},
}
"""What the first executable of a program has of some operators."""


def params() -> list[Any]:
    by_name = {each.name: each for each in ENGINES}
    return [
        pytest.param(by_name[engine], name, id=f"{engine}-{name}", marks=by_name[engine].marks())
        for engine, name in OPERATORS
    ]


@pytest.mark.parametrize(("engine", "name"), params())
def test_program_is_built_verified_and_loaded(engine: Other, name: str, tmp_path: Path) -> None:
    shutil.copytree(MANIFESTS / name, tmp_path / name)
    for needed in ("digits",) if name == "train" else ():
        shutil.copytree(MANIFESTS / needed, tmp_path / needed)
    text = (MANIFESTS / f"{name}.toml").read_text()
    engines = f"\nengines = [{engine.listed}]\n"
    text = text.replace("\n\n", f"{engines}\n", 1) if "\n\n" in text else text
    (tmp_path / f"{name}.toml").write_text(text)
    signer, bundle = LocalSigner.ephemeral(), tmp_path / f"{name}.aotb"
    built = build(tmp_path / f"{name}.toml", bundle, BuildOptions(signer=signer))
    (manifest,) = built.bundle.manifests.values()
    assert manifest.target.platform == engine.name
    entry_point = manifest.entry_points[sorted(manifest.entry_points)[-1]]
    found = entry_point.profiles[0].thunks
    expected = OPERATORS[engine.name, name]
    assert {each: found.get(each) for each in expected} == expected
    with aotc_runtime.load(bundle, trust=policy_for(signer, name=name)) as loaded:
        assert loaded.report()["compilations"] == 0
        assert loaded.report()["engine"] == engine.name
