"""What ONNX graphs compute where compilers differ, compared with plain JAX, bit by bit where the
results are integers.

Each function of `semantics_program` becomes a graph and is run by the loader's own device.
`DENORMAL` lists what is otherwise, and docs/engines.md tells users.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aotc.capture.portable_stablehlo import portable
from aotc.engines.onnx_graphs.graph_job import Job
from aotc.engines.onnxruntime.onnxruntime_worker import compile_job
from aotc_runtime.engines.engine_device import Aval

from . import semantics_program as program
from .search import run_here

DENORMAL = ("denormal_sums", "logarithms", "roots", "rounded", "signs")
"""Functions that give other results for denormal numbers, which XLA takes for zero."""

REFUSED = {
    "complex_": "complex<f32>",
    "double_complex": "complex<f64>",
    "factorized": "lapack_spotrf_ffi",
    "small_floats": "f8E4M3FN",
    "transformed": "complex<f32>",
}
"""Functions that are refused, with what the message says."""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compiled(function: Any, *inputs: Any) -> tuple[Any, list[Any]]:
    """What the worker makes of a function, and what plain JAX gives."""
    with jax.enable_x64():
        expected = [np.asarray(each) for each in jax.tree.leaves(jax.jit(function)(*inputs))]
        lowered = (
            jax.jit(function, keep_unused=True).trace(*inputs).lower(lowering_platforms=("cpu",))
        )
        module = portable(lowered.compiler_ir("stablehlo"))
    return compile_job(Job(module.artifact, ())), expected


def results_of(function: Any, *inputs: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """What a function gives on ONNX Runtime, and in plain JAX."""
    made, expected = compiled(function, *inputs)
    assert not made.problem, made.words
    avals = [Aval(array.shape, array.dtype) for array in expected]
    return run_here("onnxruntime", made.serialized, inputs, avals), expected


def same(actual: Any, expected: Any) -> bool:
    """Whether results are equal: integers exactly, floats but for rounding."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    if expected.dtype.kind in "biu":
        return bool(np.array_equal(actual, expected))
    if expected.dtype.kind == "V" or expected.dtype.itemsize == 2:
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
        return bool(np.allclose(actual, expected, rtol=1e-2, atol=1e-6, equal_nan=True))
    return bool(np.allclose(actual, expected, rtol=2e-5, atol=1e-6, equal_nan=True))


def differences(function: Any, *inputs: Any) -> list[Any]:
    pairs = zip(*results_of(function, *inputs), strict=True)
    return [pair for pair in pairs if not same(*pair)]


@pytest.mark.parametrize("name", sorted({*program.INPUTS} - {*REFUSED}))
def test_results_are_those_of_plain_jax_but_for_denormals(name: str) -> None:
    found = differences(getattr(program, name), *program.INPUTS[name])
    assert bool(found) == (name in DENORMAL), found


@pytest.mark.parametrize("name", DENORMAL)
def test_only_denormals_make_the_difference(name: str) -> None:
    inputs = [
        np.where(np.abs(each) < np.finfo(np.float32).tiny, 0, each).astype(each.dtype)
        for each in program.INPUTS[name]
    ]
    assert not differences(getattr(program, name), *inputs)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_compiled_is_refused_by_its_operation(name: str) -> None:
    made, _ = compiled(getattr(program, name), *program.INPUTS[name])
    assert made.problem
    assert REFUSED[name] in made.words or REFUSED[name] in made.called


RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((2, 16, 32), np.float32)
IMAGE = RANDOM.standard_normal((1, 8, 8, 4), np.float32)
KERNEL = RANDOM.standard_normal((3, 3, 4, 4), np.float32) / 6
HOLED = np.where(RANDOM.uniform(size=IMAGE.shape) < 0.05, np.nan, IMAGE).astype(np.float32)
PLACES = np.array([1, 30, -1], np.int32)
NUMBERS = ("NHWC", "HWIO", "NHWC")


def _conv(x: Any, w: Any, **options: Any) -> Any:
    stride = options.pop("stride", 1)
    padding = options.pop("padding", "SAME")
    return lax.conv_general_dilated(
        x, w, (stride, stride), padding, dimension_numbers=NUMBERS, **options
    )


def _pool(x: Any, start: float, combine: Any) -> Any:
    return lax.reduce_window(x, x.dtype.type(start), combine, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def _norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def _turned(x: Any) -> Any:
    """Transposes that meet their inverse behind what has to be said of other axes for it."""
    turned = x.transpose(3, 0, 2, 1)
    row, column = np.arange(5, dtype=np.float32), np.arange(4, dtype=np.float32)[:, None]
    edged = jnp.pad(
        jnp.tanh(turned * row + column),
        ((0, 1), (2, 0), (0, 0), (1, 3)),
        constant_values=2,
    )
    joined = jnp.concatenate([edged, -edged, jnp.full(edged.shape, 3, edged.dtype)], 3)
    cut = jnp.flip(joined, 0)[1:, ::2, 1:-1, 2:]
    chosen = jnp.where(cut > cut.mean((0, 2), keepdims=True), cut, row[2])
    return (
        chosen.transpose(1, 3, 2, 0),
        chosen.sum(1),
        chosen.max((3, 1)),
        cut.min(),
        lax.cond(cut.sum() > 0, lambda: turned * 2, lambda: turned).transpose(1, 3, 2, 0),
        x.transpose(1, 2, 3, 0).transpose(3, 2, 0, 1).transpose(0, 2, 1, 3),
    )


def _network(x: Any, w: Any) -> Any:
    """Convolutions, and between them what others have with channels first."""
    first = jax.nn.relu(_conv(x, w) * w[0, 0, 0] + w[0, 0, 1])
    second = _conv(_pool(first, -jnp.inf, lax.max), w) + first[:, ::2, ::2]
    weighted = second * jax.nn.sigmoid(second.mean((1, 2), keepdims=True))
    return _conv(jnp.concatenate([weighted, second], 1), w), weighted.max((1, 2))


OPERATIONS: dict[str, tuple[Any, ...]] = {
    "transposes": (_turned, RANDOM.standard_normal((2, 5, 4, 3), np.float32)),
    "a network": (_network, IMAGE, KERNEL),
    "a network with no number": (_network, HOLED, KERNEL),
    "layer norm": (_norm, ROWS),
    "softmax of an inner axis": (lambda x: jax.nn.softmax(x, 1), ROWS),
    "softmax of nothing but -inf": (jax.nn.softmax, np.full((2, 3), -np.inf, np.float32)),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), ROWS),
    "gelu of tanh": (jax.nn.gelu, ROWS),
    "silu": (jax.nn.silu, ROWS),
    "attention": (jax.nn.dot_product_attention, *(ROWS.reshape(2, 16, 4, 8),) * 3),
    "grouped attention": (
        lambda q, k: (
            jax.nn.softmax(jnp.einsum("bnkgd,btkd->bkgnt", q, k)),
            jnp.einsum("bnkgd,btkd->bkgnt", q[:, :1], k),
            (q[0, 0, 0] @ k[0, :, 0].T).T,
            jnp.einsum("bnkgd,btkd->tbngk", q, k),
        ),
        ROWS.reshape(2, 16, 2, 2, 8),
        ROWS.reshape(2, 16, 2, 16)[..., :8],
    ),
    "contraction of two axes": (
        lambda x, y: jnp.einsum("bsd,dsn->bn", x, y),
        ROWS,
        RANDOM.standard_normal((32, 16, 3), np.float32),
    ),
    "convolution": (_conv, IMAGE, KERNEL),
    "with a stride": (lambda x, w: _conv(x, w, stride=2), IMAGE, KERNEL),
    "dilated": (lambda x, w: _conv(x, w, rhs_dilation=(2, 2)), IMAGE, KERNEL),
    "between zeros": (
        lambda x, w: _conv(x, w, padding=((2, 1), (1, 2)), lhs_dilation=(2, 2)),
        IMAGE,
        KERNEL,
    ),
    "cut at the edges": (
        lambda x, w: _conv(x, w, padding=((-1, 2), (0, -1))),
        IMAGE,
        KERNEL,
    ),
    "by groups": (lambda x, w: _conv(x, w, feature_group_count=4), IMAGE, KERNEL[:, :, :1]),
    "gradient of a kernel": (
        jax.grad(lambda w, x: (_conv(x, w) ** 2).mean()),
        KERNEL,
        IMAGE,
    ),
    "gradient of an image": (
        jax.grad(lambda x, w: (_conv(x, w, stride=2) ** 2).sum()),
        IMAGE,
        KERNEL,
    ),
    "largest of windows": (lambda x: _pool(x, -jnp.inf, lax.max), HOLED),
    "sums of windows": (lambda x: _pool(x, 0.0, lax.add), IMAGE),
    "products of windows": (lambda x: _pool(x, 1.0, lax.mul), IMAGE),
    "no number anywhere": (lambda x, w: jax.nn.relu(_conv(x, w)), HOLED, KERNEL),
    "largest with none": (lambda x: (x.max((1, 2)), x.min(), jnp.argmax(x, 3)), HOLED),
    "one index": (lambda x, i: x[:, :, i], ROWS, PLACES),
    "two indices": (lambda x, i: x[:, i, i], ROWS, PLACES),
    "windows of a batch": (
        lambda x, i: jax.vmap(lambda y, j: lax.dynamic_slice(y, (j, j), (4, 4)))(x, i),
        ROWS,
        PLACES[:2],
    ),
    "windows put into a batch": (
        lambda x, i: jax.vmap(
            lambda y, j: lax.dynamic_update_slice(y, jnp.ones((4, 4), y.dtype), (j, j))
        )(x, i),
        ROWS,
        PLACES[:2],
    ),
    "along an axis": (
        lambda x, i: jnp.take_along_axis(x, i, axis=2),
        ROWS,
        np.full((2, 16, 2), 3, np.int32),
    ),
    "sums by segment": (lambda x, i: jax.ops.segment_sum(x, i, 4), ROWS[0], np.arange(16) % 5),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0, 0], x[0]), ROWS),
    "running": (
        lambda x: (jnp.cumprod(x, 1), lax.cummax(x, 1), lax.cummin(x, 2, reverse=True)),
        ROWS,
    ),
    "a function of one's own": (
        lambda x: lax.reduce(x, jnp.float32(1), lambda a, b: a + b - a * b / 8, (1,)),
        ROWS[:, :5] / 9,
    ),
    "median": (lambda x: jnp.median(x, -1), ROWS),
    "sort by two keys": (lambda x, y: jnp.lexsort((x, y)), ROWS[0, 0], (ROWS[0, 1] > 0)),
    "places of a condition": (lambda x: jnp.where(x > 0, size=5), ROWS[0, 0]),
    "bigger image": (lambda x: jax.image.resize(x, (1, 16, 16, 4), "bilinear"), IMAGE),
    "rolled": (lambda x, n: jnp.roll(x, n, 1), ROWS, np.array(3, np.int32)),
    "special functions": (lambda x: (lax.lgamma(x), lax.erf_inv(x / 9), lax.erfc(x)), ROWS),
    "activations": (lambda x: (jax.nn.softplus(x), jax.nn.elu(x), jax.nn.log_softmax(x)), ROWS),
    "bits": (
        lambda x: (x << 3, x >> 2, lax.shift_right_logical(x, x), ~x, x & 6, lax.clz(x)),
        np.array([0, -1, 5, -128, 127], np.int8),
    ),
    "sums and products of integers": (
        lambda x, y: (x.sum(), x.prod(), y.sum(), y.prod(), y.astype(jnp.int8).sum(dtype=jnp.int8)),
        np.array([2**31 - 1, 2**31 - 3, -5, 7], np.int32),
        np.array([2**63 - 1, 2**62 + 1, 2**53 + 1, -9], np.int64),
    ),
    "the sign of unsigned integers": (
        lax.shift_right_arithmetic,
        np.array([2**32 - 1, 2**31, 5], np.uint32),
        np.array([3, 40, 1], np.uint32),
    ),
    "argmax of doubles": (
        lambda x: (jnp.argmax(x), jnp.argmin(x)),
        np.array([1, 3, np.nan, 3, np.nan, -1, np.nan], np.float64),
    ),
    "products of brain floats": (
        lambda x: jnp.cumprod(x.astype(jnp.bfloat16)),
        np.array([1, 1.5, 2, -0.5], np.float32),
    ),
    "exponentials less one that are nearly infinite": (
        jnp.expm1,
        np.array([88.5, 88.7, 89, 60, 1e-9, -1e-3, -200], np.float32),
    ),
    "integers by themselves": (
        lambda x, y: (lax.div(x, x), lax.rem(x, x), lax.div(y, y)),
        np.array([0, 5, -(2**31)], np.int32),
        np.array([0, 255], np.uint8),
    ),
    "an integral of exponentials": (
        jax.scipy.special.expi,
        np.array([0.5, 1, 2, 30], np.float32),
    ),
    "uint64": (
        lambda x: (
            jnp.maximum(x, x[::-1]),
            x > x[::-1],
            x // 3,
            x.sum(),
            jnp.argsort(x),
            lax.top_k(x, 2),
        ),
        np.array([0, 2**64 - 1, 2**63, 5], np.uint64),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_what_plain_jax_gives(name: str) -> None:
    function, *inputs = OPERATIONS[name]
    assert not differences(function, *inputs)


def _rows_of_equals() -> Any:
    """Numbers of which many are equal, with zeros of both signs, infinities and the largest."""
    rows = np.random.default_rng(0).integers(-3, 4, (24, 37)).astype(np.float32)
    rows[::3] *= -0.0
    rows[1::4, 20:30], rows[1::4, :20] = np.inf, 65504  # float16 has none that is larger
    rows[2::4] = -np.inf
    return rows


def _where_most_is(x: Any) -> list[Any]:
    return [
        most(part, axis)
        for most in (jnp.argmax, jnp.argmin)
        for part, axis in ((x, 0), (x, 1), (x[:, 1:8], 1))
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("none", [None, np.nan, -np.nan])
def test_the_first_of_equals_is_the_largest_and_before_it_what_is_no_number(
    none: float | None, dtype: Any
) -> None:
    rows = _rows_of_equals()
    if none is not None:
        rows[4, 30:], rows[5, 36], rows[12, 0], rows[13:20, 33] = none, none, none, none
    assert not differences(_where_most_is, rows.astype(dtype))


def test_the_same_module_gives_the_same_bytes() -> None:
    first, _ = compiled(_conv, IMAGE, KERNEL)
    again, _ = compiled(_conv, IMAGE, KERNEL)
    assert first.serialized == again.serialized


def _whole(number: float) -> Any:
    """A number that is another one once it was an integer, which a program computes itself."""
    return lax.full((1, 1), number, np.float32).astype(np.int32).astype(np.float32)


def _norm_with(epsilon: Any, x: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + epsilon)


CONVERTED: dict[str, Any] = {
    "an epsilon": lambda x: _norm_with(_whole(1e-6), x),
    "an epsilon of half precision": lambda x: _norm_with(
        lax.full((1, 1), 1e-9, np.float32).astype(np.float16).astype(np.float32), x
    ),
    "an epsilon that wraps": lambda x: _norm_with(
        lax.full((1, 1), 257, np.int32).astype(np.uint8).astype(np.float32), x
    ),
    "an epsilon above every integer": lambda x: _norm_with(
        lax.full((1, 1), 3e9, np.float32).astype(np.int32).astype(np.float32), x
    ),
    "a sum that wraps": lambda x: _norm_with(
        (lax.full((), 127, np.int8) + lax.full((), 2, np.int8)).astype(np.float32) + 127, x
    ),
    "a sum that is rounded": lambda x: _norm_with(
        (lax.full((), 2.0**25, np.float32) + lax.full((), 1, np.float32)) - 2.0**25, x
    ),
    "a condition": lambda x: jnp.where(_whole(0.5).astype(bool), x, -x),
    "a condition that holds": lambda x: jnp.where(_whole(-1.5).astype(bool), x, -x),
    "a half": lambda x: x * lax.erfc(-x * np.float32(0.5**0.5)) * _whole(0.5),
    "a least number": lambda x: jnp.maximum(
        x, lax.full((1, 1), -np.inf, np.float32).astype(np.int32).astype(np.float32) + 2.0**31
    ),
    "no number": lambda x: (
        x + lax.full((1, 1), np.nan, np.float32).astype(np.int32).astype(np.float32)
    ),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_a_converted_constant_is_what_the_conversion_makes_of_it(name: str) -> None:
    assert not differences(CONVERTED[name], ROWS * 1e-4)


ODD = np.array([1, np.nan, -np.inf, np.inf, -0.0, 0, 3, 2, -5])
AT = np.array([0, 0, 1, 2, 9, -1, 1, 2, 3], np.int32)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("name", ["max", "min", "add", "multiply", "set"])
def test_a_scatter_keeps_what_is_no_number(name: str, dtype: Any) -> None:
    def scattered(x: Any, updates: Any) -> Any:
        return [getattr(row.at[AT], name)(updates, mode="drop") for row in x]

    rows = np.array([[0, 0, 0, 0], [np.nan, 1, 2, 3], [-np.inf, np.inf, -2, -7]])
    assert not differences(scattered, rows.astype(dtype), ODD.astype(dtype))


HOLES = np.float32([[1, np.nan, np.inf], [np.nan, 2, -3]])
KEEP = np.array([[True, False, False], [True, True, False]])

MASKED: dict[str, tuple[Any, ...]] = {
    "a mask": (lambda x, k: (x * k, k * x, (x * k).sum(-1)), HOLES, KEEP),
    "of half precision": (lambda x, k: x.astype(jnp.float16) * k, HOLES, KEEP),
    "of brain floats": (lambda x, k: x.astype(jnp.bfloat16) * k, HOLES, KEEP),
    "of doubles": (lambda x, k: x.astype(np.float64) * k, HOLES, KEEP),
    "a comparison": (lambda x: x * (x > 1), HOLES),
    "a mask that is used elsewhere": (
        lambda x, k: (x * k.astype(np.float32), k.astype(np.float32).sum()),
        HOLES,
        KEEP,
    ),
    "one for each row": (lambda x, k: x * k, HOLES, KEEP[:, :1]),
    "one for each column": (lambda x, k: x * k, HOLES, KEEP[0]),
    "one that is moved as booleans": (lambda x, k: x * k.T.astype(np.float32), HOLES, KEEP.T),
    "one that is moved as numbers": (lambda x, k: x * k.astype(np.float32).T, HOLES, KEEP.T),
    "one of integers": (lambda x, k: x * k.astype(np.int32).astype(np.float32), HOLES, KEEP),
    "a constant": (lambda x: x * KEEP, HOLES),
    "zeros": (lambda x: x * 0, HOLES),
    "vectors": (lambda x, k: jnp.einsum("ij,ij->i", x, k.astype(np.float32)), HOLES, KEEP),
    "vectors of half precision": (
        lambda x, k: jnp.einsum("ij,ij->i", x.astype(np.float16), k.astype(np.float16)),
        HOLES,
        KEEP,
    ),
    "a matrix": (lambda x, k: x @ k.T.astype(np.float32), HOLES, KEEP),
    "a loop": (
        lambda x, k: lax.scan(lambda c, each: (c + each[0] * each[1], c), x[0], (x, k)),
        HOLES,
        KEEP,
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_a_product_with_a_mask_is_what_plain_jax_makes_of_it(name: str) -> None:
    function, *inputs = MASKED[name]
    assert not differences(function, *inputs)


EXTREME = np.array(
    [
        [3e38, 1, -2, 0.5],
        [-3e38, 3e38, 1, 2],
        [np.nan, 1, 2, 3],
        [1, 2, 3, np.inf],
        [-np.inf, 1, 2, 3],
        [1e19, -1e19, 2e19, 0],
        [1, 2, 3, 4],
        [-300, -301, -302, -303],
    ],
    np.float32,
)


def _by_squares(x: Any) -> Any:
    """As flax computes a layer norm."""
    mean = x.mean(-1, keepdims=True)
    variance = (x * x).mean(-1, keepdims=True) - mean * mean
    return (x - mean) * lax.rsqrt(jnp.maximum(variance, 0) + 1e-5)


def _softmax_less(most: Any) -> Any:
    def function(x: Any) -> Any:
        power = jnp.exp(x - most(x))
        return power / power.sum(-1, keepdims=True)

    return function


ROWWISE: dict[str, Any] = {
    "a softmax": jax.nn.softmax,
    "its logarithm": jax.nn.log_softmax,
    "one less the maximum of all": _softmax_less(lambda x: x.max()),
    "one less another maximum": _softmax_less(lambda x: (x / 2).max(-1, keepdims=True)),
    "one less a maximum of at least 0": _softmax_less(
        lambda x: jnp.max(x, -1, keepdims=True, initial=0)
    ),
    "one without": _softmax_less(lambda x: 0.0),
    "a layer norm": _norm,
    "one by squares": _by_squares,
    "an RMS norm": lambda x: _norm_with(1e-6, x),
    "a GELU": lambda x: jax.nn.gelu(x, approximate=False),
    "a GELU of tanh": jax.nn.gelu,
    "a SiLU": jax.nn.silu,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ROWWISE)
def test_rows_with_extreme_numbers_are_infinite_or_none_where_plain_jax_is(
    name: str, dtype: Any
) -> None:
    for (found,), (plain,) in [results_of(ROWWISE[name], EXTREME.astype(dtype))]:
        assert np.array_equal(np.isnan(found), np.isnan(plain))
        assert np.array_equal(np.isinf(found), np.isinf(plain))
        ordinary = [6, 7] if name == "one less the maximum of all" else [6]
        assert np.allclose(found[ordinary], plain[ordinary], rtol=1e-5, atol=1e-6, equal_nan=True)


SIGNS = np.array([-0.0, 0, -0.3, 0.3, -1, 1, np.inf, -np.inf])

SIGNED: dict[str, Any] = {
    "a choice of the first": lambda x: jnp.where(jnp.abs(x) < 0.5, x, x * 2),
    "a choice of the second": lambda x: jnp.where(jnp.abs(x) > 0.5, x * 2, x),
    "a choice among constants": lambda x: jnp.where(x < 0.5, np.float32(-0.0), 1),
    "a choice in a loop": lambda x: lax.fori_loop(
        0, 2, lambda i, y: jnp.where(jnp.abs(y) < 0.5, y, x), x
    ),
    "an arc tangent": lambda x: jnp.arctan2(x, -jnp.abs(x)),
    "rounded": lambda x: (lax.round(x), jnp.round(x), jnp.trunc(x)),
    "a cube root": jnp.cbrt,
    "a sign": jnp.sign,
    "near zero": lambda x: (jnp.expm1(x), jnp.log1p(jnp.maximum(x, -0.5))),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("name", SIGNED)
def test_zeros_keep_their_signs(name: str, dtype: Any) -> None:
    if name == "an arc tangent" and dtype == np.float64:
        pytest.skip("refused")
    for found, plain in zip(*results_of(SIGNED[name], SIGNS.astype(dtype)), strict=True):
        number = ~np.isnan(plain)
        assert np.array_equal(np.signbit(found)[number], np.signbit(plain)[number])
