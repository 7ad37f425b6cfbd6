"""Modules of StableHLO in their three forms, and jax.export's files, as functions with weights."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src import effects

from aotc.base.errors import CaptureError
from aotc.capture.model_files.frontend_protocol import Model, ModelFile
from aotc.frontends.stablehlo import module_probe
from aotc.frontends.stablehlo.jax_export_frontend import JaxExportFrontend
from aotc.frontends.stablehlo.module_probe import rewritten
from aotc.frontends.stablehlo.stablehlo_frontend import StablehloFrontend
from tests.refusals import error_of

W = np.random.default_rng(7).normal(size=(4, 3)).astype(np.float32)
X = np.arange(8, dtype=np.float32).reshape(2, 4)


def program(x: Any) -> dict[str, Any]:
    def step(carried: Any) -> Any:
        count, value = carried
        return count + 1, jnp.tanh(value @ W) @ jnp.asarray(W).T

    _, value = jax.lax.while_loop(lambda carried: carried[0] < 3, step, (0, x))
    return {"last": value, "product": x @ W}


def by_hand(x: Any) -> dict[str, Any]:
    value = x
    for _ in range(3):
        value = np.tanh(value @ W) @ W.T
    return {"last": value, "product": x @ W}


def file(data: bytes, name: str, signature: str | None = None) -> ModelFile:
    def beside(path: str) -> bytes:
        raise AssertionError(path)

    return ModelFile(name, data, signature, beside, enable_x64=False)


def code(data: bytes, name: str, signature: str | None = None) -> str:
    """Of the one finding with which a file of such a name is refused."""
    reader = JaxExportFrontend() if name.endswith(".jax") else StablehloFrontend()
    (finding,) = error_of(CaptureError, reader.read, file(data, name, signature)).findings
    assert finding.where.startswith(name)
    return finding.code


@pytest.fixture(scope="module")
def exported() -> Any:
    return export.export(jax.jit(program))(jax.ShapeDtypeStruct(X.shape, X.dtype))


def run(model: Model, *arrays: Any) -> Any:
    return jax.jit(model.function)(dict(model.weights), *arrays)


FORMS: dict[str, Callable[[Any], bytes]] = {
    "text.mlir": lambda exported: str(exported.mlir_module()).encode(),
    "portable.mlirbc": lambda exported: exported.mlir_module_serialized,
}


@pytest.mark.parametrize("name", FORMS)
def test_module_computes_what_it_says_with_weights(exported: Any, name: str) -> None:
    model = StablehloFrontend().read(file(FORMS[name](exported), name))
    assert [(i.name, i.dtype, i.shape) for i in model.inputs] == [("x", np.float32, (2, 4))]
    assert {array.tobytes() for array in model.weights.values()} == {W.tobytes()}
    last, product = run(model, X)
    np.testing.assert_allclose(last, by_hand(X)["last"], rtol=1e-6)
    np.testing.assert_allclose(product, by_hand(X)["product"], rtol=1e-6)


def test_other_weights_of_a_module_give_other_results(exported: Any) -> None:
    model = StablehloFrontend().read(file(FORMS["text.mlir"](exported), "text.mlir"))
    (name,) = model.weights
    _, product = jax.jit(model.function)({name: 2 * W}, X)
    np.testing.assert_allclose(product, 2 * (X @ W), rtol=1e-6)


def test_an_exported_function_takes_any_size_that_it_was_exported_for() -> None:
    (size,) = export.symbolic_shape("n")
    every = export.export(jax.jit(program))(jax.ShapeDtypeStruct((size, 4), jnp.float32))
    model = JaxExportFrontend().read(file(bytes(every.serialize()), "any.jax"))
    assert model.inputs[0].shape == ("n", 4)
    assert {array.tobytes() for array in model.weights.values()} == {W.tobytes()}
    for rows in (1, 2, 5):
        x = np.ones((rows, 4), np.float32)
        found = run(model, x)
        assert found.keys() == {"last", "product"}
        np.testing.assert_allclose(found["last"], by_hand(x)["last"], rtol=1e-6)


def test_leaves_of_arguments_are_named_by_their_paths() -> None:
    def affine(p: Any, *, x: Any) -> Any:
        return p["w"] @ x + p["b"][0]

    shapes = {"w": jax.ShapeDtypeStruct((3, 4), jnp.float32)}
    shapes |= {"b": (jax.ShapeDtypeStruct((3,), jnp.float32),)}  # type: ignore[dict-item]
    made = export.export(jax.jit(affine))(shapes, x=jax.ShapeDtypeStruct((4,), jnp.float32))
    model = JaxExportFrontend().read(file(bytes(made.serialize()), "affine.jax"))
    assert [each.name for each in model.inputs] == ["arg0/b/0", "arg0/w", "x"]
    found = run(model, np.ones(3, np.float32), W.T.copy(), np.ones(4, np.float32))
    np.testing.assert_allclose(found, W.T.sum(1) + 1, rtol=1e-6)


TWO = """
module {
  func.func public @double(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @square(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


@pytest.mark.parametrize(("signature", "result"), [("double", 6.0), ("square", 9.0)])
def test_a_signature_names_one_of_several_functions(signature: str, result: float) -> None:
    model = StablehloFrontend().read(file(TWO.encode(), "two.mlir", signature))
    (found,) = run(model, np.full(2, 3, np.float32))
    assert list(found) == [result, result]


SHARED = """
module {
  func.func public @main() -> tensor<2xf32> {
    %0 = call @table() : () -> tensor<20xf32>
    %1 = stablehlo.slice %0 [3:5] : (tensor<20xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  func.func private @table() -> tensor<20xf32> {
    %0 = stablehlo.constant dense<NUMBERS> : tensor<20xf32>
    return %0 : tensor<20xf32>
  }
}
""".replace("NUMBERS", str([float(number) for number in range(20)]))


@pytest.mark.parametrize(("signature", "last"), [("main", 4.0), ("table", 19.0)])
def test_constants_of_functions_that_several_call_are_weights(signature: str, last: float) -> None:
    model = StablehloFrontend().read(file(SHARED.encode(), "shared.mlir", signature))
    assert [array.shape for array in model.weights.values()] == [(20,)]
    (found,) = run(model)
    assert found[-1] == last


def test_complex_constants_stay_where_they_are() -> None:
    numbers = "[(1.0,2.0),(3.0,4.0),(5.0,6.0),(7.0,8.0),(9.0,0.0)]"
    kind = "tensor<5xcomplex<f32>>"
    text = f"func.func @main() -> {kind} {{ %0 = stablehlo.constant dense<{numbers}> : {kind} "
    model = StablehloFrontend().read(file((text + f"return %0 : {kind} }}").encode(), "c.mlir"))
    (found,) = run(model)
    assert not model.weights and found[1] == 3 + 4j


def one(kind: str) -> bytes:
    text = f"func.func @main(%arg0: {kind}) -> {kind} {{ return %arg0 : {kind} }}"
    return text.encode()


TRUTH = """
func.func @main() -> (tensor<4xi1>, tensor<i1>) {
  %0 = stablehlo.constant dense<[false, false, true, true]> : tensor<4xi1>
  %1 = stablehlo.constant dense<[false, true, false, true]> : tensor<4xi1>
  %2 = stablehlo.add %0, %1 : tensor<4xi1>
  %3 = stablehlo.constant dense<false> : tensor<i1>
  %4 = stablehlo.reduce(%0 init: %3) applies stablehlo.add across dimensions = [0]
    : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
  return %2, %4 : tensor<4xi1>, tensor<i1>
}
"""


def test_the_sum_of_truth_values_is_whether_one_is_true_also_of_constants() -> None:
    each, whole = run(StablehloFrontend().read(file(TRUTH.encode(), "truth.mlir")))
    assert [*map(bool, each)] == [False, True, True, True] and bool(whole)


@pytest.mark.parametrize(("name", "place"), [("maximum", -1), ("minimum", 0)])
def test_complex_numbers_are_compared_by_both_parts(name: str, place: int) -> None:
    kind = "tensor<4xcomplex<f32>>"
    text = f"func.func @main(%a: {kind}, %b: {kind}) -> {kind} {{ %0 = stablehlo.{name} %a, %b : "
    model = StablehloFrontend().read(file(f"{text}{kind} return %0 : {kind} }}".encode(), "c.mlir"))
    a, b = [1 + 2j, 1 + 7j, 3 + 1j, 2 + 9j], [1 + 7j, 1 + 2j, 2 + 9j, 3 + 1j]
    (found,) = run(model, *(np.array(each, np.complex64) for each in (a, b)))
    pairs = zip(a, b, strict=True)
    assert [*found] == [sorted(p, key=lambda n: (n.real, n.imag))[place] for p in pairs]


SCAN = """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %init = stablehlo.constant dense<0.5> : tensor<f32>
  %0:2 = chlo.scan(%x) inits(%init) dimension=0 {
  ^bb0(%each: tensor<f32>, %carried: tensor<f32>):
    %1 = stablehlo.add %each, %carried : tensor<f32>
    stablehlo.return %1, %1 : tensor<f32>, tensor<f32>
  } : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<f32>
}
"""


def test_scans_are_loops() -> None:
    sums, last = run(StablehloFrontend().read(file(SCAN.encode(), "scan.mlir")), X[0])
    assert [*sums] == [0.5, 1.5, 3.5, 6.5] and last == 6.5


@pytest.mark.parametrize("kind", ["f8E3M4", "f8E4M3B11FNUZ", "f8E8M0FNU", "i4"])
def test_arrays_of_few_bits_are_taken(kind: str) -> None:
    model = StablehloFrontend().read(file(one(f"tensor<2x{kind}>"), "few.mlir"))
    (given,) = model.inputs
    x = np.ones(2, given.dtype)
    (found,) = run(model, x)
    assert found.dtype == given.dtype and list(found.astype(np.float32)) == [1.0, 1.0]


FILES = Path(__file__).parent / "files"
DEEP = 100_000
NESTED = {
    "attributes": b"module attributes {a = " + b"[" * DEEP + b"]" * DEEP + b"} { }",
    "types": b"func.func @main(%x: " + b"tuple<" * DEEP + b"tensor<2xf32>" + b">" * DEEP + b") {}",
}
"""Texts that nest without end, whose reader would crash."""

WAITING = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %token = stablehlo.create_token : !stablehlo.token
  %fed:2 = "stablehlo.infeed"(%token) : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
  return %fed#0 : tensor<2xf32>
}
"""


@pytest.mark.parametrize(
    ("data", "name", "signature", "expected"),
    [
        (TWO.encode(), "two.mlir", None, "AOTC-E845"),
        (TWO.encode(), "two.mlir", "cube", "AOTC-E845"),
        (b"", "empty.mlir", None, "AOTC-E845"),
        (b"no module", "x.mlir", None, "AOTC-E843"),
        (b"func.func @main() { return %0 : tensor<2xf32> }", "x.mlir", None, "AOTC-E843"),
        (b"ML\xefR\x0dStableHLO_v99.0.0\x00", "x.mlirbc", None, "AOTC-E843"),
        (b"ML\xefR", "x.mlirbc", None, "AOTC-E843"),
        (b"\xff\xfe\x00", "x.mlirbc", None, "AOTC-E843"),
        (one("tensor<?xf32>"), "x.mlir", None, "AOTC-E844"),
        (one("tensor<2xf6E3M2FN>"), "x.mlir", None, "AOTC-E844"),
        (one("!stablehlo.token"), "x.mlir", None, "AOTC-E844"),
        (WAITING.encode(), "x.mlir", None, "AOTC-E844"),
        *(pytest.param(NESTED[what], "x.mlir", None, "AOTC-E843", id=what) for what in NESTED),
        *((data, "x.jax", None, "AOTC-E843") for data in (b"", b"\xff" * 100)),
    ],
)
def test_no_module_is_refused(data: bytes, name: str, signature: str | None, expected: str) -> None:
    assert code(data, name, signature) == expected


def test_a_portable_artifact_cut_anywhere_is_refused(exported: Any) -> None:
    data = FORMS["portable.mlirbc"](exported)
    for length in range(0, len(data) - 1, len(data) // 3):
        assert code(data[:length], "x.mlirbc") in ("AOTC-E843", "AOTC-E845")


@pytest.mark.parametrize("name", ["crashes.mlirbc", "spins.mlirbc"])
def test_crashing_bytecode_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_probe, "SECONDS", 1)
    assert code((FILES / name).read_bytes(), name) == "AOTC-E843"


def test_exported_function_with_crashing_module_is_refused(exported: Any) -> None:
    serialized = dataclasses.replace(
        exported, mlir_module_serialized=(FILES / "crashes.mlirbc").read_bytes()
    ).serialize()
    assert code(bytes(serialized), "model.jax") == "AOTC-E843"


def test_module_beyond_memory_is_refused(exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits count from what the reader had when it began."""
    data = FORMS["text.mlir"](exported)
    wide = b"module attributes {jax.a = [" + b"1," * 1_000_000 + b"1]} { }"
    first, second = rewritten(file(data, "x.mlir"), [data, wide], "a module")
    assert first != second and len(second) > 1_000
    monkeypatch.setattr(module_probe, "TIMES", 0)
    monkeypatch.setattr(module_probe, "MEMORY_MIB", 64)
    rewritten(file(data, "x.mlir"), [data], "a module")
    monkeypatch.setattr(module_probe, "MEMORY_MIB", 0)
    refused = error_of(CaptureError, rewritten, file(wide, "x.mlir"), [wide], "a module")
    assert refused.code == "AOTC-E843"


class _Effect(effects.Effect):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Effect)

    def __hash__(self) -> int:
        return hash(_Effect)


def test_exported_function_with_unknown_effects_is_refused(exported: Any) -> None:
    effects.lowerable_effects.add_type(_Effect)
    given = dataclasses.replace(exported, unordered_effects=(_Effect(),))
    with pytest.raises(CaptureError) as refused:
        JaxExportFrontend().read(file(bytes(given.serialize()), "effects.jax"))
    assert refused.value.code == "AOTC-E844"
    assert "_Effect" in refused.value.findings[0].found


def test_exported_function_with_broken_module_is_refused(exported: Any) -> None:
    data = bytes(exported.serialize())
    for old, new in ((b"main\0", b"mail\0"), (b"\0tanh", b"\0tang"), (b"tanh_v1", b"tang_v1")):
        if old in data:
            assert code(data.replace(old, new), "model.jax") == "AOTC-E843"
    assert b"main\0" in data


def test_a_text_that_is_not_utf_8_is_refused_and_the_process_lives(exported: Any) -> None:
    data = FORMS["text.mlir"](exported).replace(b"stablehlo.tanh", b"stablehlo.\xe2anh")
    assert code(data, "text.mlir") == "AOTC-E843"


def test_an_exported_function_has_no_signatures(exported: Any) -> None:
    assert code(bytes(exported.serialize()), "x.jax", "main") == "AOTC-E845"
