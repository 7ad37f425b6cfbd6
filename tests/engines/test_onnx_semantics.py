"""Results of ONNX graphs where compilers differ, compared with plain JAX.

Integers are compared bit by bit. Each function becomes a graph and is run by the loader's device.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aotc.engines.onnx_graphs.graph_job import Job
from aotc.engines.onnxruntime.onnxruntime_worker import compile_job
from aotc_runtime.engines.engine_arrays import Aval
from scripts.search.engine_calls import Case, Lowered, run_here


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compiled(function: Any, *inputs: Any) -> tuple[Any, list[Any]]:
    """Return what the worker makes of a function, and what plain JAX gives."""
    lowered = Lowered(Case("", function, True, (), {"": inputs}))
    return compile_job(Job(lowered.module.artifact, ())), lowered.plain(inputs)


def results_of(function: Any, *inputs: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return what a function gives on ONNX Runtime, and in plain JAX."""
    made, expected = compiled(function, *inputs)
    assert not made.problem, made.words
    avals = [Aval(array.shape, array.dtype) for array in expected]
    return run_here("onnxruntime", made.serialized, inputs, avals), expected


def same(actual: Any, expected: Any) -> bool:
    """Return whether results are equal: integers exactly, floats but for rounding."""
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


@pytest.mark.parametrize("function", [jnp.log, lax.rsqrt, jnp.ceil, jnp.sign])
def test_denormal_numbers_are_no_zeros_as_they_are_for_xla(function: Any) -> None:
    denormal = np.float32([1e-45, -1e-39, 1e-39, 2, 0])
    assert differences(function, denormal)
    assert not differences(function, np.where(np.abs(denormal) < 1e-38, np.float32(0), denormal))


RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((2, 16, 32), np.float32)
IMAGE = RANDOM.standard_normal((1, 8, 8, 4), np.float32)
KERNEL = RANDOM.standard_normal((3, 3, 4, 4), np.float32) / 6
HOLED = np.where(RANDOM.uniform(size=IMAGE.shape) < 0.05, np.nan, IMAGE).astype(np.float32)


def _conv(x: Any, w: Any) -> Any:
    words = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=words)


def _norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def test_a_norm_of_a_row_whose_sum_is_infinite_is_no_number() -> None:
    rows = np.where(np.arange(64) % 2 == 0, 2e38, 1e38) * np.float32([[1], [1e-38]])
    large = rows.astype(np.float32)
    (found,), (plain,) = results_of(lambda x: _norm(x) * 2 + 1, large)
    assert np.isnan(plain[0]).all() and np.isfinite(plain[1]).all()
    assert same(found, plain)


def _turned(x: Any) -> Any:
    """Transposes that meet their inverse behind what has to be said of other axes for it."""
    turned = x.transpose(3, 0, 2, 1)
    row, column = np.arange(5, dtype=np.float32), np.arange(4, dtype=np.float32)[:, None]
    edged = jnp.pad(
        jnp.tanh(turned * row + column), ((0, 1), (2, 0), (0, 0), (1, 3)), constant_values=2
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
    pooled = lax.reduce_window(first, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    second = _conv(pooled, w) + first[:, ::2, ::2]
    weighted = second * jax.nn.sigmoid(second.mean((1, 2), keepdims=True))
    return _conv(jnp.concatenate([weighted, second], 1), w), weighted.max((1, 2))


OPERATIONS: dict[str, tuple[Any, ...]] = {
    "transposes": (_turned, RANDOM.standard_normal((2, 5, 4, 3), np.float32)),
    "a network": (_network, IMAGE, KERNEL),
    "a network with no number": (_network, HOLED, KERNEL),
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
    "no number anywhere": (lambda x, w: jax.nn.relu(_conv(x, w)), HOLED, KERNEL),
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
def test_first_of_equals_wins_and_nan_before_it(none: float | None, dtype: Any) -> None:
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
    "of doubles": (lambda x, k: x.astype(np.float64) * k, HOLES, KEEP),
    "a mask that is used elsewhere": (
        lambda x, k: (x * k.astype(np.float32), k.astype(np.float32).sum()),
        HOLES,
        KEEP,
    ),
    "one for each row": (lambda x, k: x * k, HOLES, KEEP[:, :1]),
    "one that is moved as booleans": (lambda x, k: x * k.T.astype(np.float32), HOLES, KEEP.T),
    "one that is moved as numbers": (lambda x, k: x * k.astype(np.float32).T, HOLES, KEEP.T),
    "one of integers": (lambda x, k: x * k.astype(np.int32).astype(np.float32), HOLES, KEEP),
    "zeros": (lambda x: x * 0, HOLES),
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
def test_rows_with_extreme_numbers_match_plain_jax(name: str, dtype: Any) -> None:
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
