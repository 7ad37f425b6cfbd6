"""Modules in float64, and StableHLO's interpreter: what executables are judged by."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jaxlib.mlir import ir

from aotc.bundle.write.bundle_writer import Blob
from aotc.capture import jax_private
from aotc.capture.float64_module import (
    NotInterpretedError,
    NotWidenedError,
    interpret,
    widen,
)
from aotc.capture.portable_stablehlo import portable
from aotc.compile.mlir import mlir_context
from aotc_runtime.engines.device_features import SymbolicModule
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.engines.engine_registry import start
from aotc_runtime.engines.xla.xla_cpu_device import Processor
from tests.refusals import error_of

X = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)


def _widely(array: Any) -> Any:
    found = np.asarray(array)
    if found.dtype.kind == "f" or found.dtype.name == "bfloat16":
        return found.astype(np.float64)
    return found.astype(np.complex128) if found.dtype.kind == "c" else found


def _computed(
    function: Callable[..., Any],
    *arguments: Any,
    options: dict[str, str] | None = None,
    seed: int | None = None,
) -> list[Any]:
    lowered = jax.jit(function).lower(*arguments)
    module = portable(jax_private.static_module(lowered))
    given = [_widely(each) for each in arguments]
    results = [_widely(each) for each in jax.tree.leaves(jax.jit(function)(*arguments))]
    inputs, outputs = ([Aval(a.shape, a.dtype) for a in each] for each in (given, results))
    device = cast(Processor, start("cpu"))
    device.register_custom_calls(module.custom_call_targets)
    blob = cast(Any, Blob(widen(module.artifact, seed), ""))
    symbolic = SymbolicModule(blob, inputs, outputs, options or {}, "wide")
    executable = device.features.compile_symbolic(symbolic)
    put = [device.put(array, aval) for array, aval in zip(given, inputs, strict=True)]
    buffers = device.execute(executable, put)
    return [device.to_numpy(b, aval) for b, aval in zip(buffers, outputs, strict=True)]


def _mean(x: Any) -> Any:
    return x - np.float32(0.1), jnp.full((3,), 0.1, jnp.float32).sum() + x.mean()


def _loop(x: Any) -> Any:
    return lax.scan(lambda held, row: (held * 0.9 + row, held.sum()), x[0], x)


def _normal(key: Any) -> Any:
    return jax.random.normal(jax.random.wrap_key_data(key), (4,))


def _halves(x: Any) -> Any:
    return (x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16)).astype(jnp.float32)


def _solved(x: Any) -> Any:
    return jnp.linalg.cholesky(x @ x.T + jnp.eye(8)), lax.top_k(x, 3), jnp.fft.fft(x)


@pytest.mark.parametrize(
    ("function", "argument", "apart"),
    [
        (_mean, X, 1e-6),
        (_loop, X, 1e-5),
        (_normal, np.uint32([1, 2]), 1e-6),
        (_halves, X, 0.5),
        (_solved, X, 1e-4),
    ],
)
def test_widened_is_the_same(function: Callable[..., Any], argument: Any, apart: float) -> None:
    found = _computed(function, argument)
    for one, plain in zip(found, jax.tree.leaves(jax.jit(function)(argument)), strict=True):
        assert one.dtype.name in ("float64", "complex128", "int32")
        np.testing.assert_allclose(one, _widely(plain), rtol=0, atol=apart)


@pytest.mark.parametrize(
    ("value", "type_", "why"),
    [
        ("after_all", "!stablehlo.token", ""),
        ("tuple %a", "tuple<tensor<f32>>", ""),
        ("constant dense<[(0.0, 1.0), (1.0, 0.0)]>", "tensor<2xcomplex<f64>>", ""),
        ("constant dense<(0.0, 1.0)>", "tensor<complex<f32>>", "a constant of complex numbers"),
        ("constant dense<[1.0, 2.0]>", "tensor<2xbf16>", "a constant of tensor<2xbf16>"),
    ],
)
def test_what_is_not_widened_says_why(value: str, type_: str, why: str) -> None:
    inner = f"%0 = stablehlo.{value} : {type_}\n return %0 : {type_}"
    text = f"func.func public @main(%a: tensor<f32>) -> {type_} {{ {inner} }}"
    with mlir_context.new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        artifact = jax_private.serialize_portable(module, mlir_context.stablehlo_version())
    if why:
        assert str(error_of(NotWidenedError, widen, artifact)) == why
    else:
        assert widen(artifact)


def test_widened_constants_are_those_of_float32() -> None:
    found, _ = _computed(_mean, np.zeros((1, 1), np.float32))
    assert found.item() == -float(np.float32(0.1))


def test_widened_modules_show_what_float32_rounds_away() -> None:
    large = np.float32([[1e8, 1.0, -1e8]])
    (found,) = _computed(lambda x: x.sum(-1), large)
    assert found.item() == 1.0


def test_widened_modules_compute_what_is_written_without_simplification() -> None:
    x, keep = np.float32([[np.nan, 1]]), np.array([[False, True]])
    written = {"xla_disable_hlo_passes": "algsimp"}
    assert np.isnan(_computed(lambda x, k: (x * k).sum(-1), x, keep, options=written)[0]).all()


def test_interpreted_computes_booleans_integers_and_floats() -> None:
    def function(x: Any, keep: Any) -> Any:
        return jnp.where(keep, x, 0).sum(-1), jnp.argmax(x, -1), ~keep

    keep = X > 0
    lowered = jax.jit(function).lower(X, keep)
    artifact = portable(jax_private.static_module(lowered)).artifact
    for one, plain in zip(interpret(artifact, [X, keep]), function(X, keep), strict=True):
        np.testing.assert_allclose(one, plain, rtol=1e-5, atol=1e-6)


def test_interpreted_says_what_it_does_not_take() -> None:
    artifact = portable(jax_private.static_module(jax.jit(jnp.tanh).lower(X))).artifact
    with pytest.raises(NotInterpretedError):
        interpret(artifact, [X[:2]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ x.T,
        lambda x: x.sum(0) + (x == x.max(0)).sum(0),  # what is no sum of numbers stays exact
        lambda x: jnp.cumsum(x, 1),
        lambda x: lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), "SAME"),
        lambda x: lax.scan(lambda held, row: (held + row.mean(), row @ x.T), 0.0, x),
    ],
    ids=["product", "sum", "windows", "convolution", "loop"],
)
def test_sums_with_a_seed_are_off_by_rounding(function: Callable[..., Any]) -> None:
    exact, first, again, other = (_computed(function, X, seed=seed) for seed in (None, 1, 1, 2))
    for place, right in enumerate(exact):
        assert first[place].tobytes() == again[place].tobytes() != other[place].tobytes()
        error = np.abs(first[place] - right).max() / np.abs(right).max()
        assert 1e-9 < error < 1e-5
