"""Products of bfloat16 factors: their numbers, and which products and weights they are of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import export, lax
from jaxlib.mlir import ir

from aotc.capture.portable_stablehlo import portable
from aotc.compile.mlir import mlir_context
from aotc.compile.precision.bfloat16_products import bfloat16_uses, multiply_bfloat16, round_factors
from aotc.compile.precision.quantized_numbers import Array
from aotc.compile.precision.weight_products import Product

type Function = Callable[..., Any]


def narrow(x: Any) -> Any:
    return np.asarray(x).astype(ml_dtypes.bfloat16).astype(np.float64)


def rows(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def module_of(function: Function, *arguments: Array) -> ir.Module:
    lowered = jax.jit(lambda *a: function(*a), keep_unused=True).lower(*arguments)
    artifact = portable(lowered.compiler_ir("stablehlo")).artifact
    return mlir_context.read_artifact(artifact)


def called(module: ir.Module, function: Function, arguments: Sequence[Array]) -> Array:
    """Return the result of a module that computes what a function does, in XLA."""
    exported = export.export(jax.jit(lambda *a: function(*(x.astype(np.float32) for x in a))))(
        *arguments
    )
    made = replace(exported, mlir_module_serialized=portable(module).artifact)
    return np.asarray(jax.jit(made.call)(*arguments))


def stacked(x: Any, w: Any) -> Any:
    return lax.scan(lambda h, each: (jnp.tanh(h @ each), None), x, w)[0]


def convolved(x: Any, w: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def attention(x: Any, w: Any) -> Any:
    keys = x @ w.T
    return jnp.einsum("bij,bkj->bik", keys, x) * 2


@pytest.mark.parametrize(
    ("function", "shapes", "types", "exact"),
    [
        (lambda x, w: x @ w, [(3, 64), (64, 5)], "64x5", lambda x, w: narrow(x) @ narrow(w)),
        (lambda x, w: x @ w.T, [(3, 64), (5, 64)], "5x64", lambda x, w: narrow(x) @ narrow(w).T),
        (
            lambda x, w: jnp.tanh(x) @ w.reshape(64, 6),
            *([(3, 64), (64, 2, 3)], "64x2x3"),
            lambda x, w: narrow(jax.jit(jnp.tanh)(x)) @ narrow(w).reshape(64, 6),
        ),
        (
            convolved,
            *([(2, 5, 5, 3), (3, 3, 3, 4)], "3x3x3x4"),
            lambda x, w: np.einsum(
                "bijxyc,xyco->bijo",
                np.lib.stride_tricks.sliding_window_view(
                    np.pad(narrow(x), ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2)
                ).transpose(0, 1, 2, 4, 5, 3),
                narrow(w),
            ),
        ),
    ],
)
def test_products_are_those_of_rounded_factors(
    function: Function, shapes: Sequence[tuple[int, ...]], types: str, exact: Function
) -> None:
    x, w = (rows(*shape, seed=seed) for seed, shape in enumerate(shapes))
    module = module_of(function, x, w)
    assert bfloat16_uses(module, [])[1] == {Product(())}
    assert multiply_bfloat16(module, [1], []) == 1
    with module.context:
        assert f"tensor<{types}xbf16>" in str(module).split("->")[0]
    wanted = exact(x, w)
    found = called(module, function, [x, w.astype(ml_dtypes.bfloat16)])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-5)
    lowered = jax.jit(lambda x, w: function(x, w), keep_unused=True).lower(x, w)
    round_factors(lowered.compiler_ir("stablehlo"), [])
    plain = np.asarray(lowered.compile()(x, w))
    np.testing.assert_allclose(plain, wanted, rtol=2e-6, atol=1e-5)
    assert np.abs(np.asarray(jax.jit(function)(x, w)) - wanted).max() > 1e-3
