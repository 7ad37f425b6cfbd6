"""Models that Keras saved on TensorFlow, against what it computes there; and the walk of the
documentation, from a model to a bundle that is called.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras", reason="Keras is not installed: `make test-keras` installs it")

import jax
import keras
from keras import layers

from aotc.base.errors import CaptureError
from aotc.capture import line_coverage
from aotc.capture.model_files.frontend_protocol import Model, ModelFile
from aotc.frontends.keras.keras_frontend import KerasFrontend
from tests.conftest import ROOT
from tests.documented import blocks_of, in_shell, shell

RECORDED = Path(os.environ.get("AOTC_KERAS", "out/keras/recorded")).absolute()
TENSORFLOW = os.environ.get("AOTC_TENSORFLOW_PYTHON", "")
"""A Python that has Keras and TensorFlow."""

MODELS = sorted(path.stem for path in RECORDED.glob("*.keras"))

FAR = {"mixed_float16": 2**-10, "mixed_bfloat16": 2**-7, "bfloat16": 2**-7}
"""Relative to the largest element. Without a line here 1e-5."""

PAGE = ROOT / "docs" / "guides" / "keras-tensorflow.md"

needs_recorded = pytest.mark.skipif(not MODELS, reason="run make test-keras")


def read(name: str) -> Model:
    path = RECORDED / f"{name}.keras"
    return KerasFrontend().read(
        ModelFile(path.name, path.read_bytes(), None, lambda _: b"", enable_x64=False)
    )


def recorded(name: str) -> tuple[dict[str, Any], list[Any]]:
    """Inputs by name, and results."""
    with np.load(RECORDED / f"{name}.npz") as held:
        arrays = dict(held)
    count = sum(key.startswith("result/") for key in arrays)
    return arrays, [arrays.pop(f"result/{number}") for number in range(count)]


def in_order(model: Model, given: dict[str, Any]) -> list[Any]:
    """One whose name Keras chose has the only array."""
    return [given.get(each.name, next(iter(given.values()))) for each in model.inputs]


QUANTIZED: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: layers.Dense(4)(layers.Dense(32, "relu")(x)),
    "einsum": lambda x: layers.EinsumDense("abc,cd->abd", (None, 8), bias_axes="d")(x),
    "embedding": lambda x: layers.Dense(3)(layers.Embedding(20, 8)(x)),
}


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("name", QUANTIZED)
def test_narrow_weights_stay_narrow_and_match_keras(name: str, bits: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(bits)
    x = keras.Input((5, 16))
    given = rng.normal(size=(3, 5, 16)).astype("float32")
    if name == "embedding":
        x, given = keras.Input((5,), dtype="int32"), rng.integers(0, 20, (3, 5)).astype("int32")
    made = keras.Model(x, QUANTIZED[name](x))
    made.quantize(f"int{bits}")
    made.save(tmp_path / "few.keras")
    data = (tmp_path / "few.keras").read_bytes()
    model = KerasFrontend().read(ModelFile("few.keras", data, None, lambda _: b"", False))
    kernels = {array.dtype for path, array in model.weights.items() if "scale" not in path}
    assert np.dtype("int8") in kernels
    found = jax.jit(model.function)(dict(model.weights), given)
    wanted = keras.ops.convert_to_numpy(made(given, training=False))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def saved(made: Any, folder: Path) -> Model:
    made.save(folder / "made.keras")
    data = (folder / "made.keras").read_bytes()
    return KerasFrontend().read(ModelFile("made.keras", data, None, lambda _: b"", False))


def test_products_of_masks_and_what_is_no_number_are_none(tmp_path: Path) -> None:
    """As Keras computes them on TensorFlow: XLA alone selects, and gives 0."""
    x, mask = keras.Input((4,), name="x"), keras.Input((4,), dtype="bool", name="mask")
    made = keras.Model(
        [x, mask], [keras.ops.cast(mask, "float32") * x, keras.ops.multiply(x, mask)]
    )
    model = saved(made, tmp_path)
    given = np.array([[np.nan, -1, -np.inf, 2]], "float32"), np.array([[False, True, False, False]])
    for found in jax.jit(model.function)(dict(model.weights), *given):
        np.testing.assert_array_equal(found, [[np.nan, -1, np.nan, 0]])


@pytest.mark.filterwarnings("error:Explicitly requested dtype")
def test_inputs_of_int64_are_traced_without_a_warning(tmp_path: Path) -> None:
    words = keras.Input((5,), dtype="int64", name="words")
    model = saved(keras.Model(words, layers.Embedding(30, 4)(words)), tmp_path)
    assert model.narrowed == ("words",)
    found = jax.jit(model.function)(dict(model.weights), np.ones((2, 5), np.int32))
    assert found.shape == (2, 5, 4)


def test_equations_belong_to_layers_within_layers_by_their_names(tmp_path: Path) -> None:
    x = keras.Input((5, 8), name="x")
    hidden = layers.MultiHeadAttention(2, 4, name="attention")(x, x)
    made = keras.Model(x, layers.LSTM(3, name="memory")(hidden), name="reader")
    made.save(tmp_path / "layers.keras")
    data = (tmp_path / "layers.keras").read_bytes()
    model = KerasFrontend().read(ModelFile("layers.keras", data, None, lambda _: b"", False))
    given = np.ones((2, 5, 8), np.float32)
    jaxpr = jax.make_jaxpr(model.function)(dict(model.weights), given).jaxpr
    found = line_coverage.layers(jaxpr, model.layers)
    assert {"reader/attention/query", "reader/memory"} <= found.keys()
    assert sum(found.values()) == line_coverage.control_flow(jaxpr).equations


def test_other_quantization_is_refused_by_its_name(tmp_path: Path) -> None:
    x = keras.Input((16,))
    made = keras.Model(x, layers.Dense(4, name="last")(x))
    made.quantize("float8")
    made.save(tmp_path / "few.keras")
    data = (tmp_path / "few.keras").read_bytes()
    with pytest.raises(CaptureError, match=r"Float8QuantizationConfig.*last") as refused:
        KerasFrontend().read(ModelFile("few.keras", data, None, lambda _: b"", False))
    assert refused.value.code == "AOTC-E844"


@needs_recorded
def test_enough_models_were_saved() -> None:
    assert len(MODELS) >= 20


@pytest.mark.parametrize("name", MODELS or ["none: run make test-keras"])
@needs_recorded
def test_a_model_gives_what_keras_gives_on_tensorflow(name: str) -> None:
    model, (given, wanted) = read(name), recorded(name)
    found = jax.tree.leaves(jax.jit(model.function)(dict(model.weights), *in_order(model, given)))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        scale = max(1.0, float(np.abs(other).max()))
        far = np.abs(np.asarray(one, "float64") - other.astype("float64")).max() / scale
        assert far <= FAR.get(name, 1e-5)


@needs_recorded
@pytest.mark.parametrize("name", ["cnn", "gru", "masked", "several", "text_classifier", "unet"])
def test_a_batch_of_any_size_is_traced_at_once(name: str) -> None:
    model, (given, _) = read(name), recorded(name)
    (batch,) = jax.export.symbolic_shape("batch")
    shapes = [
        jax.ShapeDtypeStruct(
            [batch if n == "batch" else old for n, old in zip(one.shape, array.shape, strict=True)],
            array.dtype,
        )
        for one, array in zip(model.inputs, in_order(model, given), strict=True)
    ]
    weights = {
        key: jax.ShapeDtypeStruct(each.shape, each.dtype) for key, each in model.weights.items()
    }
    exported = jax.export.export(jax.jit(model.function))(weights, *shapes)
    assert all(str(each.shape[0]) == "batch" for each in exported.out_avals)


@needs_recorded
def test_weights_have_their_paths_as_names_and_seeds_are_none() -> None:
    layers, parts = ("conv2d", "dense"), ("kernel", "bias")
    assert {*read("augmented").weights} == {f"{one}/{part}" for one in layers for part in parts}


@needs_recorded
def test_models_within_a_model_keep_their_weights_apart() -> None:
    weights = read("towers").weights
    assert {"first/kernel", "first/kernel:2"} < {*weights}
    assert len(weights) == 8  # of two encoders, one of which is called twice


@needs_recorded
def test_a_file_names_its_inputs_dtypes_and_framework() -> None:
    model = read("several")
    assert {each.name: (each.dtype.name, each.shape) for each in model.inputs} == {
        "image": ("float32", ("batch", 8, 8, 3)),
        "price": ("float32", ("batch", 1)),
        "words": ("int64", ("batch", 5)),
    }
    assert model.narrowed == ("words",)
    assert model.producer["framework"] == "Keras"
    assert {*model.producer} == {"framework", "keras", "converter"}


def aotc(folder: Path, *arguments: str) -> str:
    done = shell(shlex.join([sys.executable, "-m", "aotc.cli.main", *arguments]), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not TENSORFLOW, reason="run make test-keras")
def test_the_walk_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras saves a model on TensorFlow; aotc makes a bundle of it, twice; the loader gives what
    TensorFlow gave.
    """
    monkeypatch.setenv("AOTC_CACHE", str(tmp_path / "cache"))
    # Of users who have Keras on another backend.
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    blocks = {block.language: block.code for block in blocks_of(PAGE, "Keras")}
    there = {**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([TENSORFLOW, "-c", blocks["python"]], cwd=tmp_path, env=there, check=True)
    ran, commands = blocks["sh"].split("\n", 1)
    assert "python make.py" in ran
    built = in_shell(commands, tmp_path)
    inspected = json.loads(aotc(tmp_path, "inspect", "--json", "model.aotb"))
    told = json.dumps(inspected)
    assert "expected.npz" in told
    assert "Keras" in told
    building = ["build", "model.toml", "--key", "ci.key", "--output"]
    again = aotc(tmp_path, *building, "again.aotb", "--explain")
    root = re.compile(r"^root +(sha256:[0-9a-f]{64})", re.MULTILINE)
    assert {*root.findall(built)} == {*root.findall(again)}
    assert again.count("  cached ") == 5
    code = (
        "import aotc_runtime, numpy as np, sys;"
        "bundle = aotc_runtime.load('model.aotb', trust='trust.toml');"
        "given, wanted = np.load('inputs.npz'), np.load('expected.npz');"
        "found = bundle['model'](**given);"
        "assert np.abs(found - wanted['result']).max() < 1e-5;"
        "assert not {'jax', 'keras'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
