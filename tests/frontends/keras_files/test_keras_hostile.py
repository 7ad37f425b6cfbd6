"""`.keras` files that somebody made to run code, to read other files or to fill memory: one coded
error, and nothing of it happens.
"""

import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras", reason="Keras is not installed: `make test-keras` installs it")

import h5py
import jax
import jax.numpy as jnp
import keras
from keras import layers

from aotc.base.errors import CaptureError
from aotc.capture.model_files import model_archive
from aotc.capture.model_files.frontend_protocol import Model, ModelFile
from aotc.frontends.keras import keras_config, keras_frontend, keras_loading
from aotc.frontends.keras.keras_frontend import KerasFrontend

CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"

type Members = dict[str, bytes]


def read(data: bytes, *, enable_x64: bool = False) -> Model:
    file = ModelFile("bad.keras", data, None, lambda _: b"", enable_x64)
    return KerasFrontend().read(file)


def refused(data: bytes, *, enable_x64: bool = False) -> CaptureError:
    with pytest.raises(CaptureError) as caught:
        read(data, enable_x64=enable_x64)
    return caught.value


def saved(model: Any, folder: Path) -> bytes:
    model.save(folder / "good.keras")
    return (folder / "good.keras").read_bytes()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    x = keras.Input((6,), name="x")
    y = layers.Dense(4, "relu", name="first")(x)
    model = keras.Model(x, layers.Dense(2, name="second")(layers.Dropout(0.5, name="drop")(y)))
    model.compile("adam", "mse")
    return saved(model, tmp_path_factory.mktemp("good"))


def members(data: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(parts: Members, method: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for name, data in parts.items():
            file.writestr(name, data)
    return made.getvalue()


def configured(good: bytes, change: Callable[[Any], object]) -> bytes:
    """The file with its configuration changed."""
    parts = members(good)
    document = json.loads(parts[CONFIG])
    change(document)
    return zipped({**parts, CONFIG: json.dumps(document).encode()})


def layer(document: Any, name: str) -> Any:
    (found,) = [each for each in document["config"]["layers"] if each["config"]["name"] == name]
    return found


def stored(good: bytes, change: Callable[[Any], object]) -> bytes:
    """The file with its weights changed."""
    parts = members(good)
    held = io.BytesIO(parts[WEIGHTS])
    with h5py.File(held, "r+") as file:
        change(file)
    return zipped({**parts, WEIGHTS: held.getvalue()})


def kernel(file: Any) -> Any:
    """The group of the first layer's arrays."""
    return file["layers/dense/vars"]


def test_the_file_itself_is_read(good: bytes) -> None:
    model = read(good)
    assert {*model.weights} == {f"{a}/{b}" for a in ("first", "second") for b in ("kernel", "bias")}


# Code


def _layer(name: str, **config: Any) -> dict[str, Any]:
    return {"module": "keras.layers", "class_name": name, "config": config}


def _function(module: str, name: str, **more: str) -> dict[str, Any]:
    return {"module": module, "class_name": "function", "config": name, **more}


REFUSED: dict[str, dict[str, Any]] = {
    "lambda layer": _layer("Lambda", function="x"),
    "lambda": {"class_name": "__lambda__", "config": {"value": "4wAAAA=="}},
    "pickle of torch": _layer("TorchModuleWrapper", module="x"),
    "saved model": _layer("TFSMLayer", filepath="/tmp/x"),
    "vocabulary of another file": _layer("StringLookup", vocabulary="/etc/passwd"),
    "another module": {"module": "subprocess", "class_name": "Popen", "config": {"args": "x"}},
    "a module of Keras's own": {**_layer("shutil"), "module": "keras.src.utils.file_utils"},
    "a registered name": {**_layer("Dense", units=4), "registered_name": "mine>Dense"},
    "a download": _function("keras.utils", "get_file", registered_name="get_file"),
    "a class as a function": _function("keras.ops", "__loader__"),
    "a model of Keras's own": {**_layer("Trainer"), "module": "keras.src.trainers.trainer"},
}
DAMAGED: dict[str, dict[str, Any]] = {
    "the format of Keras 2": {"class_name": "Dense", "config": {"units": 4}},
    "no name": {"class_name": 5, "config": {}},
    "an array of objects": {
        "class_name": "__numpy__",
        "config": {"value": [1], "dtype": "S999999999"},
    },
}


@pytest.mark.parametrize("name", {**REFUSED, **DAMAGED})
def test_non_array_layers_rejected(good: bytes, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> None:
        pytest.fail("Keras saw it")

    monkeypatch.setattr(keras_loading, "load", load)
    value = {**REFUSED, **DAMAGED}[name]
    bad = configured(good, lambda d: layer(d, "first")["config"].update(activation=value))
    assert refused(bad).code == ("AOTC-E844" if name in REFUSED else "AOTC-E843")


def test_a_real_lambda_layer_is_named_and_not_called(good: bytes, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    x = keras.Input((3,))
    function = eval(f"lambda x: (__import__('pathlib').Path({str(mark)!r}).touch(), x)[1]")
    model = keras.Model(x, layers.Lambda(function, name="evil", output_shape=(3,))(x))
    data = saved(model, tmp_path)
    mark.unlink(missing_ok=True)
    error = refused(data)
    assert error.code == "AOTC-E844"
    assert "evil" in error.findings[0].found
    assert not mark.exists()


def test_a_class_of_the_user_is_refused_even_where_it_is_registered(tmp_path: Path) -> None:
    @keras.saving.register_keras_serializable("mine")
    class Twice(layers.Layer):
        def call(self, x: Any) -> Any:
            return 2 * x

    x = keras.Input((3,))
    data = saved(keras.Model(x, Twice(name="twice")(x)), tmp_path)
    error = refused(data)
    assert error.code == "AOTC-E844"
    assert "Twice" in error.findings[0].found


def test_everything_refused_is_told_at_once(good: bytes) -> None:
    def change(document: Any) -> None:
        for name in ("first", "second"):
            layer(document, name)["config"]["activation"] = REFUSED["lambda"]

    assert len(refused(configured(good, change)).findings) == 2


def test_training_is_not_looked_at(good: bytes) -> None:
    def change(document: Any) -> None:
        document["compile_config"] = {"optimizer": REFUSED["another module"]}

    assert read(configured(good, change)).weights


# Archives


def other_member(good: bytes, name: str) -> bytes:
    return zipped({**members(good), name: b"cos\nsystem\n(S'touch ran'\ntR."})


@pytest.mark.parametrize(
    "name",
    [*("assets/x.txt", "weights.pkl", "../evil", "/etc/evil", "a/../../evil"), "a\\b", "a\nb"],
)
def test_members_beside_the_three_are_refused(good: bytes, name: str) -> None:
    assert refused(other_member(good, name)).code == "AOTC-E843"


@pytest.mark.parametrize("name", [CONFIG, METADATA, WEIGHTS])
def test_each_of_the_three_is_needed(good: bytes, name: str) -> None:
    parts = members(good)
    del parts[name]
    assert refused(zipped(parts)).code == "AOTC-E843"


def test_a_zip_bomb_is_not_unpacked(good: bytes) -> None:
    bomb = zipped({**members(good), CONFIG: bytes(300 * 2**20)}, zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    code = refused(bomb).code
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code == "AOTC-E843"
    assert most < 20 * 2**20


def test_every_truncation_is_refused(good: bytes) -> None:
    for length in range(0, len(good), len(good) // 40):
        assert refused(good[:length]).code == "AOTC-E843"


@pytest.mark.parametrize("name", [CONFIG, METADATA, WEIGHTS])
@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 100_000, b'{"a":', b"null", b"\x80\x04."])
def test_members_of_another_kind_are_refused(good: bytes, name: str, data: bytes) -> None:
    assert refused(zipped({**members(good), name: data})).code == "AOTC-E843"


@pytest.mark.parametrize("name", [CONFIG, METADATA])
def test_huge_documents_rejected(good: bytes, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = members(good)
    few = zipped({**parts, name: parts[name].strip()[:-1] + b', "x": [' + b"0," * 999 + b"0]}"})
    many = zipped({**parts, name: parts[name].strip()[:-1] + b', "x": [' + b"0," * 9999 + b"0]}"})
    monkeypatch.setattr(model_archive, "JSON_MARKS_MAX", 5000)
    assert read(few).weights
    assert refused(many).code == "AOTC-E843"


def test_names_that_steer_a_terminal_are_refused(good: bytes) -> None:
    bad = configured(good, lambda d: layer(d, "first")["config"].update(name="a\x1b[31m"))
    error = refused(bad)
    assert error.code == "AOTC-E843"
    assert "\x1b" not in str(error)


def deep() -> Any:
    value: Any = 0
    for _ in range(keras_config.DEPTH_MAX):
        value = [value]
    return value


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"units": "many"}},
        {"config": {"units": -1}},
        {"config": {"nothing": 1}},
        {"config": {"units": deep()}},
        {"inbound_nodes": [{"args": [10**12], "kwargs": {}}]},
    ],
)
def test_what_keras_cannot_follow_is_refused(good: bytes, change: dict[str, Any]) -> None:
    def changed(document: Any) -> None:
        for key, value in change.items():
            first = layer(document, "first")
            first[key] = {**first[key], **value} if key == "config" else value

    assert refused(configured(good, changed)).code == "AOTC-E843"


def test_a_layer_of_giant_shape_takes_no_memory(good: bytes) -> None:
    bad = configured(good, lambda d: layer(d, "first")["config"].update(units=10**12))
    before = _resident()
    assert refused(bad).code == "AOTC-E843"
    assert _resident() - before < 2**30


def test_a_giant_rank_of_lora_takes_no_memory(good: bytes) -> None:
    bad = configured(good, lambda d: layer(d, "first")["config"].update(lora_rank=10**7))
    before = _resident()
    assert {*read(bad).weights} == {*read(good).weights}
    assert _resident() - before < 2**27


def test_lora_is_in_the_kernel_that_is_read(tmp_path: Path) -> None:
    x = keras.Input((6,), name="x")
    dense = layers.Dense(4, name="first")
    model = keras.Model(x, dense(x))
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones((2, 4), np.float32))
    found = read(saved(model, tmp_path)).weights
    assert {*found} == {"first/kernel", "first/bias"}
    np.testing.assert_allclose(found["first/kernel"], dense.kernel, rtol=1e-6)


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


# Weights


def _dataset(*shape: Any, **options: Any) -> Callable[[Any], None]:
    """A change of the first array for one that is made with these arguments of h5py."""

    def change(file: Any) -> None:
        del kernel(file)["0"]
        kernel(file).create_dataset("0", *shape, **options)

    return change


def _link(link: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del kernel(file)["0"]
        kernel(file)["0"] = link

    return change


def _virtual(file: Any) -> None:
    del kernel(file)["0"]
    layout = h5py.VirtualLayout((6, 4), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (6, 4))
    kernel(file).create_virtual_dataset("0", layout)


def _circle(file: Any) -> None:
    file["layers/again"] = file["layers"]


def _kind(file: Any) -> None:
    kernel(file)["9"] = np.dtype("f4")


def _missing(file: Any) -> None:
    del file["layers/dense"]


WRONG: dict[str, Callable[[Any], None]] = {
    "chunks": _dataset((10**6, 10**6), "f4", chunks=(1000, 1000)),
    "compressed": _dataset(data=np.zeros((6, 4), "f4"), compression="gzip"),
    "without bytes": _dataset((10**6, 10**6), "f4"),
    "in another file": _dataset((6, 4), "f4", external=[("/etc/passwd", 0, 96)]),
    "virtual": _virtual,
    "a link to another file": _link(h5py.ExternalLink("/etc/passwd", "x")),
    "a link": _link(h5py.SoftLink("/layers/dense_1/vars/0")),
    "a circle": _circle,
    "texts": _dataset(data=["a"] * 24),
    "none": _dataset(data=h5py.Empty("f4")),
    "a type": _kind,
    "another shape": _dataset(data=np.zeros((4, 6), "f4")),
    "missing": _missing,
}


@pytest.mark.parametrize("name", WRONG)
def test_weights_other_than_keras_writes_them_are_refused(good: bytes, name: str) -> None:
    assert refused(stored(good, WRONG[name])).code == "AOTC-E843"


def test_damaged_weights_are_refused_or_read_whole(good: bytes) -> None:
    data = members(good)[WEIGHTS]
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(data), 60):
        bad = bytearray(data)
        bad[at] ^= 0xFF
        try:
            keras_loading.check_weights(bytes(bad))
        except keras_loading.Damaged:
            continue


# What does not fit into a bundle


def test_results_that_are_random_are_told_from_masks_that_nobody_uses() -> None:
    def used(seed: Any) -> Any:
        return jax.random.uniform(jax.random.wrap_key_data(seed), (3,)) + 1

    def drawn(seed: Any) -> Any:
        used(seed)
        return jnp.ones(3)

    seed = np.zeros(2, "uint32")
    assert keras_frontend._depends(jax.make_jaxpr(used)(seed).jaxpr)
    assert not keras_frontend._depends(jax.make_jaxpr(drawn)(seed).jaxpr)


def test_a_signature_is_refused(good: bytes) -> None:
    file = ModelFile("x.keras", good, "serving_default", lambda _: b"", False)
    with pytest.raises(CaptureError) as caught:
        KerasFrontend().read(file)
    assert caught.value.code == "AOTC-E845"


def test_a_model_that_was_never_built_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([layers.Dense(3)])
    assert refused(saved(model, tmp_path)).code in ("AOTC-E843", "AOTC-E844")


def stateful() -> Any:
    x = keras.Input(batch_shape=(2, 5, 3))
    return keras.Model(x, layers.LSTM(4, stateful=True, name="memory")(x))


def of_texts() -> Any:
    x, y = keras.Input((3,), dtype="string", name="words"), keras.Input((3,), name="numbers")
    return keras.Model([x, y], layers.Dense(2)(y))


def of_doubles() -> Any:
    x = keras.Input((3,), dtype="float64")
    return keras.Model(x, layers.Dense(2, dtype="float64")(x))


@pytest.mark.parametrize(
    ("make", "named"), [(stateful, "memory"), (of_texts, "words"), (of_doubles, "float64")]
)
def test_unsupported_model_is_named(make: Callable[[], Any], named: str, tmp_path: Path) -> None:
    error = refused(saved(make(), tmp_path))
    assert error.code == "AOTC-E844"
    assert named in error.findings[0].found
