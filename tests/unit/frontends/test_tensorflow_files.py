"""`.tfhlo` files, as `aotc import-tensorflow` writes them and as somebody may damage them. The
modules are jax's; what TensorFlow exports is compared with TensorFlow in `tests/frontends`.
"""

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.capture.model_files import model_archive
from aotc.capture.model_files.frontend_protocol import Model, ModelFile
from aotc.frontends.stablehlo.tensorflow_frontend import TensorFlowFrontend
from tests.refusals import error_of

MATRIX = np.arange(12, dtype="float32").reshape(4, 3)
LARGE = np.linspace(0, 1, 30, dtype="float32").reshape(10, 3)


def module(batch: int) -> bytes:
    def call(x: Any, matrix: Any) -> Any:
        return x @ matrix + jnp.asarray(LARGE)[:batch], jnp.sum(x)

    shapes = jax.ShapeDtypeStruct((batch, 4), "float32"), jax.ShapeDtypeStruct((4, 3), "float32")
    return jax.export.export(jax.jit(call))(*shapes).mlir_module().encode()


def document() -> dict[str, Any]:
    return {
        "format": 1,
        "tensorflow": "2.21.0",
        "saved_model": "sha256:0",
        "signature": "serving_default",
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}],
        "outputs": ["y", "sum"],
        "modules": [
            {"shapes": [[n, 4]], "weights": ["dense/kernel"], "file": f"modules/{n}.mlirbc"}
            for n in (1, 8)
        ],
        "weights": [
            {"name": "dense/kernel", "dtype": "float32", "shape": [4, 3], "file": "weights/0"}
        ],
    }


def packed(told: Any, **members: bytes) -> bytes:
    parts = {
        "model.json": told if isinstance(told, bytes) else json.dumps(told).encode(),
        "modules/1.mlirbc": module(1),
        "modules/8.mlirbc": module(8),
        "weights/0": MATRIX.tobytes(),
        **members,
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, data in parts.items():
            file.writestr(name, data)
    return made.getvalue()


def read(data: bytes, signature: str | None = None, *, enable_x64: bool = False) -> Model:
    file = ModelFile("m.tfhlo", data, signature, lambda _: b"", enable_x64)
    return TensorFlowFrontend().read(file)


def code(data: bytes) -> str:
    return error_of(CaptureError, read, data).code


def test_each_size_has_its_module_and_all_of_them_one_set_of_weights() -> None:
    model = read(packed(document()))
    assert [(each.name, each.shape) for each in model.inputs] == [("x", ("batch", 4))]
    assert model.ranges == {"batch": (1, 8)}
    assert "dense/kernel" in model.weights
    assert model.producer["framework"] == "TensorFlow"
    for batch in (1, 8):
        x = np.ones((batch, 4), "float32")
        found = jax.jit(model.function)(dict(model.weights), x)
        np.testing.assert_allclose(found["y"], x @ MATRIX + LARGE[:batch], rtol=1e-6)
        assert float(found["sum"]) == 4 * batch


def test_products_of_masks_and_what_is_no_number_are_none() -> None:
    """As TensorFlow computes them: XLA alone selects, and gives 0."""

    def masked(x: Any, matrix: Any) -> Any:
        return (x > 0).astype(x.dtype) * x, jnp.sum(matrix)

    def exported(batch: int) -> bytes:
        shapes = [jax.ShapeDtypeStruct(each, "float32") for each in ((batch, 4), (4, 3))]
        return jax.export.export(jax.jit(masked))(*shapes).mlir_module().encode()

    members = {f"modules/{batch}.mlirbc": exported(batch) for batch in (1, 8)}
    model = read(packed(document(), **members))
    x = np.array([[np.nan, -1, -np.inf, 2]], "float32")
    found = jax.jit(model.function)(dict(model.weights), x)
    np.testing.assert_array_equal(found["y"], [[np.nan, 0, np.nan, 2]])


def test_sizes_that_were_not_imported_are_refused_with_those_that_were() -> None:
    model = read(packed(document()))
    with pytest.raises(CaptureError, match=r"x\[1,4\]; x\[8,4\]") as caught:
        model.function(dict(model.weights), np.ones((2, 4), "float32"))
    assert caught.value.code == "AOTC-E846"


def test_a_signature_is_refused() -> None:
    (finding,) = error_of(CaptureError, read, packed(document()), "serving_default").findings
    assert (finding.code, finding.found) == ("AOTC-E845", "serving_default")


def test_64_bit_types_are_refused_by_name_while_they_are_off() -> None:
    told = document()
    told["inputs"][0]["dtype"] = "int64"
    with pytest.raises(CaptureError, match="'x' is int64") as caught:
        read(packed(told))
    assert caught.value.code == "AOTC-E844"


CHANGES: dict[str, Callable[[Any], object]] = {
    "another format": lambda d: d.update(format=2),
    "an unknown key": lambda d: d.update(more=1),
    "no modules": lambda d: d.update(modules=[]),
    "a module twice": lambda d: d["modules"].append(d["modules"][0]),
    "no such member": lambda d: d["modules"][0].update(file="modules/9.mlirbc"),
    "a member that climbs": lambda d: d["weights"][0].update(file="../weights/0"),
    "an unknown weight": lambda d: d["modules"][0].update(weights=["other"]),
    "a weight that nobody takes": lambda d: [m.update(weights=[]) for m in d["modules"]],
    "a weight more": lambda d: d["weights"].append(d["weights"][0] | {"name": "spare"}),
    "a giant weight": lambda d: d["weights"][0].update(shape=[10**12, 3]),
    "a negative size": lambda d: d["weights"][0].update(shape=[-4, -3]),
    "sizes that are too many": lambda d: d["weights"][0].update(shape=[1] * 65),
    "an unknown dtype": lambda d: d["weights"][0].update(dtype="O"),
    "another dtype": lambda d: d["inputs"][0].update(dtype="int32"),
    "another shape": lambda d: d["modules"][0].update(shapes=[[8, 4]]),
    "another fixed size": lambda d: d["inputs"][0].update(shape=["batch", 5]),
    "another number of axes": lambda d: d["inputs"][0].update(shape=["batch"]),
    "another number of inputs": lambda d: d["inputs"].append(d["inputs"][0] | {"name": "z"}),
    "another number of results": lambda d: d.update(outputs=["y"]),
    "a result twice": lambda d: d.update(outputs=["y", "y"]),
    "an input twice": lambda d: d["inputs"].append(d["inputs"][0]),
    "a name that steers a terminal": lambda d: d.update(outputs=["y", "\x1b[31m"]),
    "an axis without a name": lambda d: d["inputs"][0].update(shape=["a b", 4]),
    "no name": lambda d: d["inputs"][0].update(name=""),
}


SAID = {
    "no modules": "modules, and distinct array names",
    "an input twice": "modules, and distinct array names",
    "an unknown dtype": "an array with a supported dtype and shape",
    "sizes that are too many": "an array with a supported dtype and shape",
    "a weight more": "one module for each size, and its weights alone",
    "a module twice": "one module for each size, and its weights alone",
}
"""What is said of some of them, before anything is made of their parts."""


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_contradict_themselves_are_refused(name: str) -> None:
    told = document()
    CHANGES[name](told)
    (found,) = error_of(CaptureError, read, packed(told)).findings
    assert found.code == "AOTC-E843" and found.expected == SAID.get(name, found.expected)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[", b"[" * 100_000, b"null", b'{"format": 1}', b"\xff"]
)
def test_documents_of_another_kind_are_refused(data: bytes) -> None:
    assert code(packed(data)) == "AOTC-E843"


@pytest.mark.parametrize("data", [b"", b"module {", b"ML\xefR\rStableHLO_v9.9.9\0"])
def test_modules_of_another_kind_are_refused(data: bytes) -> None:
    assert code(packed(document(), **{"modules/1.mlirbc": data})) in ("AOTC-E843", "AOTC-E845")


def test_huge_document_is_refused_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = packed(document())
    assert read(data).weights
    monkeypatch.setattr(model_archive, "JSON_MARKS_MAX", 10)
    assert code(data) == "AOTC-E843"


def test_truncated_files_are_refused() -> None:
    data = packed(document())
    for length in range(0, len(data), len(data) // 20):
        assert code(data[:length]) == "AOTC-E843"


def test_the_end_of_an_archive_that_is_shorter_than_itself_is_refused() -> None:
    """Counted from the end of the file, it would begin before the file."""
    assert code(b"PK\x03\x04PK\x05\x06" + bytes(5)) == "AOTC-E843"
