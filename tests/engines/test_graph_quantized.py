"""Quantized programs on engines that take graphs: whole numbers exactly, floats as in plain JAX.

Programs that only look like these keep their arithmetic. Weights are the first arguments.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import aotc_runtime
from aotc.bundle.read.bundle_review import review
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.compile.precision.quantized_module import restoring
from aotc.compile.precision.quantized_numbers import Scheme
from aotc.compile.target_files import builtin_folder
from aotc.compile.xla.native_target import describe_native
from aotc.engines.onnx_graphs.graph_compiler import VNNI
from aotc.engines.onnx_graphs.graph_job import Job
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.base.errors import AotcError
from aotc_runtime.system.bundle_files import open_bundle
from scripts.search.engine_calls import Case, Loaded, Lowered
from tests.engines.conftest import ENGINES
from tests.hostile.tampering import policy_for

RANDOM = np.random.default_rng(0)
DEPTH, COLUMNS, GROUP = 256, 48, 32
BLOCKS = DEPTH // GROUP


def _whole(dtype: Any, *shape: int) -> Any:
    limits = ml_dtypes.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _scales(*shape: int) -> Any:
    return RANDOM.uniform(0.005, 0.02, shape).astype(np.float32)


X = RANDOM.standard_normal((5, DEPTH)).astype(np.float32)
W8, W4 = _whole(np.int8, DEPTH, COLUMNS), _whole(ml_dtypes.int4, DEPTH, COLUMNS)
U8, U4 = _whole(np.uint8, DEPTH, COLUMNS), _whole(ml_dtypes.uint4, DEPTH, COLUMNS)
ROW, BLOCKED = _scales(COLUMNS), _scales(BLOCKS, COLUMNS)
ZEROS = _whole(np.int8, BLOCKS, COLUMNS)


def wide(w: Any) -> Any:
    return w.astype(jnp.float32)


def by_column(w: Any, scale: Any, x: Any) -> Any:
    return x @ (wide(w) * scale)


def by_block(w: Any, scale: Any, x: Any) -> Any:
    return x @ (wide(w).reshape(BLOCKS, GROUP, -1) * scale[:, None]).reshape(DEPTH, -1)


def by_block_with_zeros(w: Any, scale: Any, zero: Any, x: Any) -> Any:
    shifted = wide(w).reshape(BLOCKS, GROUP, -1) - wide(zero)[:, None]
    return x @ (shifted * scale[:, None]).reshape(DEPTH, -1)


def of_bytes(w: Any, scale: Any, x: Any) -> Any:
    """Multiply by 4-bit numbers in the halves of bytes, as a precision's module has them."""
    scheme = Scheme("int4", (0,), GROUP)
    return x @ restoring(scheme, (DEPTH, COLUMNS), np.dtype(np.float32))(w, scale)


def with_a_zero(w: Any, scale: Any, zero: Any, x: Any) -> Any:
    return x @ (wide(w.astype(jnp.int32) - zero.astype(jnp.int32)) * scale)


def product(a: Any, b: Any) -> Any:
    numbers = (((1,), (0,)), ((), ()))
    return lax.dot_general(a, b, numbers, preferred_element_type=jnp.int32)


def less(a: Any, zero: Any) -> Any:
    return a.astype(jnp.int32) - zero.astype(jnp.int32)


def rounded(x: Any, scale: Any, zero: int = 0, dtype: Any = np.int8) -> Any:
    limits = np.iinfo(dtype)
    whole = jnp.clip(jnp.round(x / scale) + zero, limits.min, limits.max)
    return whole.astype(jnp.int32).astype(dtype)


def static(w: Any, row: Any, x: Any) -> Any:
    """Quantize and dequantize before and behind a product, as ONNX's QDQ format has it."""
    scale = np.float32(0.03)
    given = wide(less(rounded(x, scale, 3), np.int8(3))) * scale
    made = given @ (wide(w) * row)
    return wide(less(rounded(made, np.float32(0.25), 128, np.uint8), np.uint8(128))) * np.float32(
        0.25
    )


def with_zeros_of_rows(w: Any, row: Any, zero: Any, x: Any) -> Any:
    given = wide(less(rounded(x, np.float32(0.03)), np.int8(0))) * np.float32(0.03)
    return given @ (wide(less(w, zero[:, None])) * row)


def with_scales_of_rows(w: Any, rows: Any, x: Any) -> Any:
    given = wide(rounded(x, np.float32(0.03))) * np.float32(0.03)
    return given @ (wide(w) * rows[:, None])


def dynamic(w: Any, row: Any, x: Any) -> Any:
    scale = jnp.abs(x).max(1, keepdims=True) / 127
    whole = jnp.clip(jnp.round(x / scale), -127, 127).astype(jnp.int8)
    return wide(product(whole, w)) * scale * row


def batches(a: Any, b: Any) -> Any:
    numbers = (((2,), (2,)), ((0,), (0,)))
    return lax.dot_general(a, b, numbers, preferred_element_type=jnp.int32)


def convolved(kernel: Any, x: Any) -> Any:
    words = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        less(x, np.int8(5)), kernel.astype(jnp.int32), (1, 2), "SAME", dimension_numbers=words
    )


def of_points(kernel: Any, scale: Any, x: Any) -> Any:
    words = ("NHWC", "OIHW", "NHWC")
    return lax.conv_general_dilated(
        x, wide(kernel) * scale, (2, 2), "SAME", dimension_numbers=words
    )


class Program(NamedTuple):
    """A function of weights, then inputs. operator: of ONNX Runtime, that it is made with."""

    function: Callable[..., Any]
    weights: tuple[Any, ...]
    inputs: tuple[Any, ...]
    operator: str = ""


LOW, HIGH = np.full((3, 4096), -128, np.int8), np.full((3, 4096), 255, np.uint8)

WEIGHTED: Mapping[str, Program] = {
    "8 bits by column": Program(by_column, (W8, ROW), (X,)),
    "8 bits by block": Program(by_block, (W8, BLOCKED), (X,)),
    "8 bits, one scale": Program(by_column, (W8, ROW[0]), (X,)),
    "8 bits, zeros by block": Program(by_block_with_zeros, (W8, BLOCKED, ZEROS), (X,)),
    "unsigned 8 bits, a zero": Program(with_a_zero, (U8, ROW, np.uint8(131)), (X,)),
    "unsigned 8 bits": Program(by_column, (U8, ROW), (X,)),
    "8 bits, scales of rows": Program(
        lambda w, s, x: x @ (wide(w) * s[:, None]), (W8, np.resize(ROW, DEPTH)), (X,)
    ),
    "8 bits, scales of blocks": Program(
        lambda w, s, x: (
            x @ (wide(w).reshape(BLOCKS, GROUP, -1) * s[:, None, None]).reshape(DEPTH, -1)
        ),
        (W8, ROW[:BLOCKS]),
        (X,),
    ),
    "8 bits, zeros of rows": Program(
        lambda w, s, x: x @ ((wide(w) - s[:, None]) * s[:, None]), (W8, np.resize(ROW, DEPTH)), (X,)
    ),
    "8 bits, scales of two axes": Program(
        lambda w, s, x: jnp.einsum(
            "bij,ijn->bn", x.reshape(-1, BLOCKS, GROUP), wide(w).reshape(BLOCKS, GROUP, -1) * s
        ),
        (W8, ROW[:BLOCKS].reshape(-1, 1, 1)),
        (X,),
    ),
    "scaled behind": Program(lambda w, s, x: (x @ wide(w)) * s, (W8, ROW), (X,)),
    "transposed": Program(
        lambda w, s, x: jnp.einsum("bk,nk->bn", x, wide(w) * s[:, None]), (W8.T.copy(), ROW), (X,)
    ),
    "turned": Program(lambda w, s, x: x @ (wide(w) * s[:, None]).T, (W8.T.copy(), ROW), (X,)),
    "several axes": Program(
        lambda w, s, x: jnp.einsum("abk,knm->abnm", x[None], wide(w) * s),
        (W8.reshape(DEPTH, 6, 8), ROW.reshape(6, 8)),
        (X,),
    ),
}
"""Products with weights of 8 bits."""

FOUR: Mapping[str, Program] = {
    "4 bits by column": Program(by_column, (W4, ROW), (X,), "MatMulNBits"),
    "4 bits by block": Program(by_block, (W4, BLOCKED), (X,), "MatMulNBits"),
    "unsigned 4 bits": Program(by_column, (U4, ROW), (X,), "MatMulNBits"),
    "4 bits, a zero": Program(with_a_zero, (W4, ROW, _whole(ml_dtypes.int4, 1)), (X,)),
    "4 bits, a zero of floats": Program(lambda w, s, x: x @ ((wide(w) - 3) * s), (W4, ROW), (X,)),
    "4 bits, a zero of a weight": Program(
        lambda w, s, z, x: x @ ((wide(w) - wide(z)) * s), (W4, ROW, np.int8(5)), (X,)
    ),
    "4 bits, two in a byte": Program(
        of_bytes, (_whole(np.uint8, COLUMNS, DEPTH // 2), BLOCKED), (X,), "MatMulNBits"
    ),
    "4 bits, turned": Program(
        lambda w, s, x: x @ (wide(w) * s[:, None]).T, (W4.T.copy(), ROW), (X,), "MatMulNBits"
    ),
}

WHOLE: Mapping[str, Program] = {
    "signed": Program(lambda w, x: product(x, w), (W8,), (_whole(np.int8, 5, DEPTH),)),
    "the lowest": Program(lambda w, x: product(x, w), (LOW.T.copy(),), (LOW,)),
    "the highest": Program(
        lambda w, x: product(x.astype(np.int32), w.astype(np.int32)), (HIGH.T.copy(),), (HIGH,)
    ),
    "both ends": Program(
        lambda w, x, z: product(less(x, z), w.astype(np.int32)),
        (LOW.T.copy(),),
        (HIGH, np.uint8(0)),
    ),
    "of a call": Program(product, (), (_whole(np.int8, 5, DEPTH), W8)),
    "a zero of the left": Program(
        lambda w, x, z: product(less(x, z), w.astype(np.int32)),
        (W8,),
        (_whole(np.uint8, 5, DEPTH), np.uint8(7)),
    ),
    "batches": Program(batches, (), (_whole(np.int8, 2, 3, 64), _whole(np.int8, 2, 5, 64))),
}
"""Products of integers, whose sums are exact."""

ODD = np.float32([np.nan, np.inf, -np.inf, 0, 0.5, 1.5, 2.5, -0.5, 127.5, -128.5, 1e30, -1e30, 3.3])

ROUNDED: Mapping[str, Program] = {
    "int8": Program(lambda x: rounded(x, np.float32(1)), (), (ODD,)),
    "a scale": Program(lambda x: rounded(x, np.float32(0.3), 5), (), (ODD,)),
    "uint8": Program(lambda x: rounded(x, np.float32(0.3), 100, np.uint8), (), (ODD,)),
    "a zero of a call": Program(
        lambda x, z: jnp.clip(jnp.round(x) + wide(z), 0, 255).astype(np.uint8),
        (),
        (ODD, np.uint8(100)),
    ),
    "behind a scale of a call": Program(
        lambda x, s: rounded(wide(x) * s, np.float32(0.3)), (), (LOW[:1], np.float32(np.nan))
    ),
    "fewer": Program(
        lambda x: jnp.clip(jnp.round(x), -127, 100).astype(np.int8), (), (ODD,), "QuantizeLinear"
    ),
    "rounded last": Program(
        lambda x: jnp.round(jnp.clip(x, -4, 4)).astype(np.int8), (), (ODD,), "QuantizeLinear"
    ),
}

CHAINS: Mapping[str, Program] = {
    "static": Program(static, (W8, ROW), (X,), "QLinearMatMul"),
    "dynamic": Program(dynamic, (W8, ROW), (X,), "MatMulInteger"),
}

STRICT: Mapping[str, Program] = {
    "zeros of columns": Program(
        lambda w, z, x: product(less(x, np.int8(-7)), less(w, z)),
        (W8, _whole(np.int8, COLUMNS)),
        (_whole(np.int8, 5, DEPTH),),
    ),
    "a scale of rows": Program(
        lambda w, s, x: x @ (wide(w) * s[:, None]), (W4, _scales(DEPTH)), (X,)
    ),
    "a number that does not fit": Program(
        lambda w, x: product(x.astype(np.int32) - 300, w.astype(np.int32)),
        (W8,),
        (_whole(np.uint8, 5, DEPTH),),
    ),
    "zeros of rows, scales of columns": Program(
        with_zeros_of_rows, (W8[:COLUMNS], ROW, _whole(np.int8, COLUMNS)), (X[:, :COLUMNS],)
    ),
    "scales of the summed axis": Program(
        with_scales_of_rows, (W8[:COLUMNS], ROW), (X[:3, :COLUMNS],)
    ),
    "scales of the summed axis, rounded": Program(
        lambda w, s, x: rounded(with_scales_of_rows(w, s, x) + 1, np.float32(0.1)),
        (W8[:COLUMNS], ROW),
        (X[:3, :COLUMNS],),
    ),
    "scales of the summed axis, one column": Program(
        with_scales_of_rows, (W8[:, :1], np.resize(ROW, DEPTH)), (X,)
    ),
    "beside a weight of floats": Program(
        lambda w, b, q: rounded((wide(q) * np.float32(0.03)) @ w + b, np.float32(0.5)),
        (X.T.copy(), X[0, :5].copy()),
        (W8.T.copy(),),
    ),
    "beside a weight of floats, a vector": Program(
        lambda w, q: rounded((wide(q) * np.float32(0.03)) @ w, np.float32(0.5)),
        (X.T.copy(),),
        (W8[:, 0].copy(),),
    ),
    "no rounding": Program(lambda x: jnp.clip(x, -128, 127).astype(np.int8), (), (ODD,)),
    "a conversion that wraps": Program(
        lambda x: jnp.clip(jnp.round(x), -300, 300).astype(np.int32).astype(np.int8), (), (ODD,)
    ),
    "limits without 0": Program(
        lambda x: jnp.clip(jnp.round(x), 1, 100).astype(np.int8), (), (ODD,)
    ),
    "rounded away": Program(
        lambda x: jnp.clip(lax.round(x), -128, 127).astype(np.int8), (), (ODD,)
    ),
    "a scale of a call": Program(
        lambda x, s: jnp.clip(jnp.round(x / s), -128, 127).astype(np.int8),
        (),
        (ODD, np.float32(0.0)),
    ),
    "blocks of another axis": Program(
        lambda w, s, x: x @ (wide(w).reshape(DEPTH, 3, -1) * s[:, :, None]).reshape(DEPTH, COLUMNS),
        (W4, _scales(DEPTH, 3)),
        (X,),
    ),
    "weights of a call": Program(by_column, (), (W8, ROW, X)),
}
"""Programs that are no such products, or whose results another operator changes."""

FEW = {f"{name}, three rows": each._replace(inputs=(X[:3],)) for name, each in WEIGHTED.items()}
"""OpenVINO multiplies up to four rows with the numbers of 8 bits themselves."""

POINTS = W8[:COLUMNS, :32, None, None], ROW[:, None, None, None]
KERNELS = {"a kernel of points": Program(of_points, POINTS, (X.reshape(1, 5, 8, 32),))}

RIGHT = {**WEIGHTED, **FEW, **FOUR, **WHOLE, **ROUNDED, **CHAINS, **KERNELS}
ALL = {**RIGHT, **STRICT}
NEW = ("MatMulNBits", "MatMulInteger", "QuantizeLinear", "DequantizeLinear", "QLinearMatMul")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ON_GRAPHS = [each.as_param() for each in ENGINES if each.name != "iree"]
ON_ONNX = ON_GRAPHS[0].marks


def results_of(program: Program, engine: str, **job: Any) -> tuple[Any, Any, Mapping[str, int]]:
    """Return an engine's result, plain JAX's, and how often each operator occurs."""
    lowered = Lowered(Case("", program.function, False, program.weights, {"": program.inputs}))
    worker = import_module(f"aotc.engines.{engine}.{engine}_worker")
    places = tuple(range(len(program.weights)))
    made = worker.compile_job(Job(lowered.module.artifact, places, **job))
    assert not made.problem, made.words
    loaded = Loaded(engine, made.serialized, lowered.weights, program.inputs, lowered.outputs)
    (found,), (plain,) = loaded.call(program.inputs), lowered.plain(program.inputs)
    assert found.dtype == plain.dtype and found.shape == plain.shape
    return found, plain, made.evidence.placement[0].steps


def _same(found: Any, plain: Any, tolerance: float = 5e-6) -> bool:
    """Return whether integers are equal, and floats within a part of the largest."""
    if plain.dtype.kind != "f":
        return bool(np.array_equal(found, plain))
    return bool(np.abs(found - plain).max() <= tolerance * np.abs(plain).max())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=ON_ONNX) for name in {**WHOLE, **CHAINS}]
)
@pytest.mark.skipif(VNNI.isdisjoint(describe_native().features), reason="a processor without VNNI")
def test_signed_weights_are_exact_with_vnni(name: str) -> None:
    found, plain, _ = results_of(ALL[name], "onnxruntime", vnni=True)
    assert _same(found, plain)


@pytest.mark.parametrize("engine", ON_GRAPHS)
@pytest.mark.parametrize("name", [*RIGHT, "scales of the summed axis"])
def test_quantized_program_matches_plain_jax(name: str, engine: Any) -> None:
    found, plain, _ = results_of(ALL[name], engine.name)
    assert _same(found, plain)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=ON_ONNX) for name in {**FOUR, **WHOLE, **ROUNDED, **CHAINS}]
)
def test_onnx_runtime_has_one_operator_for_it(name: str) -> None:
    program = ALL[name]
    _, _, operators = results_of(program, "onnxruntime")
    kind = "MatMulInteger" if name in WHOLE else "QuantizeLinear" if name in ROUNDED else ""
    if expected := program.operator or kind:
        assert operators.get(expected) == 1
        assert {"Floor", "MatMul"}.isdisjoint(operators)


@pytest.mark.parametrize("name", [pytest.param(name, marks=ON_ONNX) for name in STRICT])
def test_what_only_looks_like_it_keeps_its_arithmetic(name: str) -> None:
    found, plain, operators = results_of(ALL[name], "onnxruntime")
    assert _same(found, plain)
    allowed = {"QuantizeLinear"} if name == "a scale of a call" else set()
    if name.startswith(("zeros of rows", "scales of the summed", "beside")):
        allowed = {"QuantizeLinear", "DequantizeLinear"}
    assert set(operators) & set(NEW) <= allowed


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("engine", ON_GRAPHS)
@pytest.mark.parametrize("name", FOUR)
def test_numbers_without_an_end_stay_so(name: str, engine: Any, rows: int) -> None:
    given = X[:rows].copy()
    given[0, 3], given[-1, 7], given[rows // 2, 9] = np.inf, -np.inf, 1e30
    found, plain, _ = results_of(FOUR[name]._replace(inputs=(given,)), engine.name)
    assert np.array_equal(np.isnan(found), np.isnan(plain))
    assert np.array_equal(np.isinf(found), np.isinf(plain))
    finite = np.isfinite(plain)
    assert np.allclose(found[finite], plain[finite], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=ON_ONNX) for name in {**WEIGHTED, **FOUR}]
)
def test_accuracy_level_4_rounds_the_other_factor_to_8_bits(name: str) -> None:
    found, plain, operators = results_of(ALL[name], "onnxruntime", accuracy="4")
    has_kernel = not any(each in name for each in ("of rows", "of two axes", " zero"))
    assert operators.get("MatMulNBits", 0) == has_kernel
    error = np.linalg.norm(found - plain) / np.linalg.norm(plain)
    assert (1e-3 < error < 2e-2) == has_kernel and _same(found, plain) != has_kernel


@pytest.mark.parametrize("engine", ON_GRAPHS)
@pytest.mark.parametrize("name", ["8 bits by column", "4 bits by block"])
def test_largest_numbers_times_small_scales_stay_finite(name: str, engine: Any) -> None:
    program, given = RIGHT[name], X[:1].copy()
    given[0, ::9] = np.finfo(np.float32).max / 4
    (numbers, scales) = program.weights
    program = program._replace(weights=(numbers, scales / 1000), inputs=(given,))
    found, plain, _ = results_of(program, engine.name)
    assert np.isfinite(plain).all() and _same(found, plain)


@pytest.mark.parametrize("engine", ON_GRAPHS)
def test_a_convolution_of_integers_is_exact_or_refused(engine: Any) -> None:
    image, kernel = _whole(np.int8, 1, 8, 9, 8), _whole(np.int8, 3, 3, 8, 4)
    found, plain, _ = results_of(Program(convolved, (kernel,), (image,)), engine.name)
    assert np.array_equal(found, plain)
    many = Program(convolved, (_whole(np.int8, 3, 3, 99, 4),), (_whole(np.int8, 1, 8, 9, 99),))
    with pytest.raises(AssertionError, match="convolution of 891 integers"):
        results_of(many, engine.name)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=ON_ONNX) for name in {**WHOLE, **CHAINS} if name != "batches"]
)
@pytest.mark.parametrize("vnni", [False, True])
def test_onnx_runtime_multiplies_signed_weights_only_with_vnni(name: str, vnni: bool) -> None:
    """Without it, sums of products with signed weights saturate."""
    onnx: Any = import_module("onnx")
    program = ALL[name]
    lowered = Lowered(Case("", program.function, False, program.weights, {"": program.inputs}))
    worker = import_module("aotc.engines.onnxruntime.onnxruntime_worker")
    places = tuple(range(len(program.weights)))
    made = worker.compile_job(Job(lowered.module.artifact, places, vnni=vnni))
    graph = onnx.load_from_string(made.serialized).graph
    signed = onnx.TensorProto.INT8
    constants = {each.name: each.data_type for each in graph.initializer}
    kinds = {each.name: each.type.tensor_type.elem_type for each in graph.input} | constants
    for node in graph.node:
        if node.op_type == "Cast":
            kinds[node.output[0]] = next(each.i for each in node.attribute if each.name == "to")
        elif node.op_type in ("MatMulInteger", "QLinearMatMul", "MatMulIntegerToFloat"):
            factors = [kinds.get(each) for each in node.input]
            right = (*program.weights, *program.inputs[1 - len(program.weights) :])[0]
            is_signed = right.dtype == np.int8
            assert (signed in factors) == (vnni and is_signed)
            break
    else:
        pytest.fail("no product of integers")


@pytest.mark.parametrize("name", [pytest.param("8 bits by column", marks=ON_ONNX)])
def test_sessions_do_not_round_activations_by_themselves(name: str, monkeypatch: Any) -> None:
    onnxruntime: Any = import_module("onnxruntime")
    plain, made = onnxruntime.SessionOptions, []
    monkeypatch.setattr(onnxruntime, "SessionOptions", lambda: made.append(plain()) or made[-1])
    results_of(ALL[name], "onnxruntime")
    entry = made[-1].get_session_config_entry("session.qdq_matmulnbits_accuracy_level")
    assert entry == "1"


PROGRAM = """
import jax.numpy as jnp

def predict(params, x):
    return jnp.tanh(x @ params["first"]) @ params["second"]
"""

MANIFEST = """
schema = 1
name = "small"
version = "1.0.0"
targets = ["{target}"]
{engines}
weights.params.source = "params.safetensors"

[precision.small]
weights = "{bits}"
activations = "{activations}"

[entry_points.predict]
function = "program:predict"
bind = {{ params = "params" }}
inputs.x = {{ shape = [3, 64], dtype = "float32" }}
precision = "small"
{keys}
"""


def write_small(folder: Path, **keys: str) -> Path:
    """Write a program with quantized weights, and return its manifest."""
    shapes = {"first": (64, 128), "second": (128, 32)}
    arrays = {key: RANDOM.standard_normal(shape).astype("f4") / 8 for key, shape in shapes.items()}
    (folder / "params.safetensors").write_bytes(write_tensors(arrays, where="test"))
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "small.toml").write_text(MANIFEST.format(**keys), encoding="utf-8")
    return folder / "small.toml"


def _small(folder: Path, **keys: str) -> tuple[Built, LocalSigner]:
    manifest, signer = write_small(folder, **keys), LocalSigner.ephemeral()
    return build(manifest, folder / "small.aotb", BuildOptions(signer=signer)), signer


NOTES = {
    ("int4", "none"): {"xla": "openvino"},
    ("int8", "none"): {"xla": "openvino", "onnxruntime": "openvino"},
    ("int8", "dynamic"): {"openvino": "onnxruntime"},
}
"""By precision, engines without kernels for it, and the one that the build names."""


XLA_BESIDE = pytest.param("xla", marks=[*ON_GRAPHS[1].marks])
"""XLA in lists that name OpenVINO, too."""


@pytest.mark.parametrize(("bits", "activations"), NOTES)
@pytest.mark.parametrize("engine", [XLA_BESIDE, *ON_GRAPHS])
def test_bundle_of_quantized_weights_says_which_engine_has_kernels(
    bits: str, activations: str, engine: Any, tmp_path: Path
) -> None:
    name = getattr(engine, "name", engine)
    better = NOTES[bits, activations].get(name, "")
    made, signer = _small(
        tmp_path,
        bits=bits,
        activations=activations,
        target="cpu-x86-64-v3",
        engines=f"engines = {[name, *filter(None, [better])]}",
        keys="tolerance = { rtol = 1e-4, atol = 1e-5 }",
    )
    (target,) = made.bundle.manifests.values()
    (profile,) = target.entry_points["predict"].profiles
    if name == "onnxruntime" and bits == "int4":
        assert profile.thunks["MatMulNBits"] == 2
    notes = [each for each in made.notes if each.startswith("predict for")]
    assert [f"the engine {name} " in each and f'["{better}"]' in each for each in notes] == (
        [True] if better else []
    )
    with aotc_runtime.load(
        tmp_path / "small.aotb", trust=policy_for(signer, name="small")
    ) as loaded:
        assert loaded["predict"](np.ones((3, 64), np.float32)).shape == (3, 32)


LEVEL = "onnxruntime-accuracy-level"
FINITE = 'numerics = "finite"\nfixtures.ranges = { x = [-1, 1] }'


@pytest.mark.parametrize(
    ("level", "keys", "code"),
    [
        pytest.param(*each, marks=ON_ONNX)
        for each in [
            ("4", f"tolerance = {{ atol = 0.1 }}\n{FINITE}", ""),
            ("4", FINITE, "AOTC-E951"),
            ("2", "", "AOTC-E908"),
        ]
    ],
)
def test_an_accuracy_level_is_recorded_and_needs_a_tolerance(
    level: str, keys: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / "targets").mkdir()
    text = (builtin_folder() / "cpu-x86-64-v3.toml").read_text()
    text = text.replace('"cpu-x86-64-v3"', '"rounding"').replace('"cpu"', '"onnxruntime"')
    text += f'options = {{ {LEVEL} = "{level}" }}\n'
    (tmp_path / "targets" / "rounding.toml").write_text(text)
    stated = {"bits": "int8", "activations": "none", "target": "rounding", "engines": ""}
    if code:
        with pytest.raises(AotcError) as error:
            _small(tmp_path, keys=keys, **stated)
        assert error.value.code == code
        return
    made, _ = _small(tmp_path, keys=keys, **stated)
    ((name, manifest),) = made.bundle.manifests.items()
    assert manifest.target.options == {LEVEL: "4"}
    (profile,) = manifest.entry_points["predict"].profiles
    assert profile.thunks["MatMulNBits"] == 2
    reviewed = review(open_bundle(tmp_path / "small.aotb"), None, datetime.now(UTC))
    evidence: Any = reviewed.targets[name].evidence
    (each,) = evidence.entry_points["predict"].profiles
    assert each.compiled.compilation.options == {LEVEL: "4"}
