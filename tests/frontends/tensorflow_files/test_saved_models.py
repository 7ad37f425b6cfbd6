"""SavedModels, imported by the command in an environment with TensorFlow, against what TensorFlow
itself computes; and the walk of the documentation.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.capture.model_files.frontend_protocol import Model, ModelFile
from aotc.commands.import_tensorflow.tensorflow_import import Imported, import_signature, write
from aotc.frontends.stablehlo.tensorflow_frontend import TensorFlowFrontend
from tests.conftest import ROOT
from tests.documented import blocks_of, in_shell

FOLDER = Path(os.environ.get("AOTC_TENSORFLOW", "out/tensorflow/recorded")).absolute()
PYTHON = Path(os.environ.get("AOTC_TENSORFLOW_PYTHON", "out/tensorflow/venv/bin/python")).absolute()
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir() or not PYTHON.exists(), reason="run make test-tensorflow"
)

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
GOOD = [name for name in NAMES if not name.startswith("refused_")] or ["none"]

REFUSED = {
    "refused_by_tensorflow": "ScaleAndTranslate",
    "refused_file": "WriteFile: .*Permission denied .*models cannot access other files",
    "refused_python": "PyFunc",
    "refused_random": "RandomStandardNormal",
    "refused_state": "AssignAddVariableOp",
    "refused_table": "LookupTableFindV2",
    "refused_texts": "StringLength",
    "refused_unique": "Unique",
}
"""What cannot be exported, and the operation that a message names."""

FAR = {"images": 2**-10}
"""Relative to the largest element; images has float16. Without a line here 1e-5."""


def imported(name: str) -> Imported:
    job = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    inputs = FOLDER / f"{name}.npz"
    return import_signature(FOLDER / name, PYTHON, job["signature"], job["profiles"], inputs)


def read(data: bytes) -> Model:
    return TensorFlowFrontend().read(ModelFile("m.tfhlo", data, None, lambda _: b"", False))


def cut(model: Model, given: dict[str, Any], sizes: dict[str, int]) -> list[Any]:
    """The inputs at a profile, as builds have them."""
    arrays = []
    for each in model.inputs:
        array = given[each.name]
        for number, axis in enumerate(each.shape):
            if isinstance(axis, str):
                array = np.take(array, np.arange(sizes[axis]) % array.shape[number], number)
        arrays.append(array)
    return arrays


def test_enough_models_were_saved() -> None:
    assert len(GOOD) >= 8
    assert {*NAMES} - {*GOOD} == {*REFUSED}


@pytest.mark.parametrize("name", GOOD)
def test_a_signature_gives_what_tensorflow_gives(name: str, tmp_path: Path) -> None:
    made = imported(name)
    assert made.expected is not None
    (tmp_path / "expected.npz").write_bytes(made.expected)
    wanted, given = dict(np.load(tmp_path / "expected.npz")), dict(np.load(FOLDER / f"{name}.npz"))
    model = read(made.model)
    for sizes in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["profiles"]:
        found = jax.jit(model.function)(dict(model.weights), *cut(model, given, sizes))
        at = ",".join(f"{axis}={size}" for axis, size in sorted(sizes.items()))
        for key, array in found.items():
            other = wanted.pop(f"{key}[{at}]").astype("float64")
            assert array.shape == other.shape
            far = np.abs(np.asarray(array, "float64") - other).max() / max(1, np.abs(other).max())
            assert far <= FAR.get(name, 1e-5)
    assert not wanted


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused_by_its_operation(name: str) -> None:
    with pytest.raises(CaptureError, match=REFUSED[name]) as caught:
        imported(name)
    assert {each.code for each in caught.value.findings} == {"AOTC-E844"}


def test_signatures_of_one_model_share_their_weights_by_name() -> None:
    one, other = (read(imported(f"several_{each}").model) for each in ("encode", "decode"))
    assert {*one.weights} == {*other.weights} == {"matrix", "bias"}
    assert all(np.array_equal(one.weights[each], other.weights[each]) for each in one.weights)


def test_the_same_model_gives_the_same_file() -> None:
    assert imported("several_encode").model == imported("several_encode").model


@pytest.mark.parametrize(
    ("signature", "profiles", "named"),
    [
        ("nothing", [{"batch": 1}], "no signature nothing, but decode, encode"),
        ("encode", [{}], "no size for batch of the input x"),
    ],
)
def test_defaults_are_told(signature: str, profiles: list[dict[str, int]], named: str) -> None:
    with pytest.raises(CaptureError, match=named):
        import_signature(FOLDER / "several_encode", PYTHON, signature, profiles, None)


def test_results_are_written_with_the_model(tmp_path: Path) -> None:
    model, expected = tmp_path / "m.tfhlo", tmp_path / "e.npz"
    write(imported("several_encode"), model, expected)
    assert read(model.read_bytes()).producer["framework"] == "TensorFlow"
    assert {*np.load(expected)} == {"code[batch=1]", "code[batch=4]"}


def test_the_walk_of_the_documentation(tmp_path: Path) -> None:
    page = ROOT / "docs" / "guides" / "keras-tensorflow.md"
    blocks = {block.language: block.code for block in blocks_of(page, "TensorFlow")}
    (tmp_path / "make.py").write_text(blocks["python"], encoding="utf-8")
    (tmp_path / "tensorflow").symlink_to(PYTHON.parents[1], target_is_directory=True)
    in_shell(blocks["sh"], tmp_path)
    code = (
        "import aotc_runtime, numpy as np, sys;"
        "bundle = aotc_runtime.load('scale.aotb', trust='trust.toml');"
        "given, wanted = np.load('inputs.npz'), np.load('expected.npz');"
        "found = bundle['scale'](given['x']);"
        "assert np.abs(found['y'] - wanted['y[batch=4]']).max() < 1e-5;"
        "assert not {'jax', 'tensorflow'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
