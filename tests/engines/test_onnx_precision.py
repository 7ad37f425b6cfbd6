"""Tests of the precision of ONNX Runtime, compared with the same program in float64."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from .test_onnx_semantics import compiled, results_of

RELATIVE_MAX = 5e-6
"""What one sum may lose of numbers of one sign; a single accumulator loses 1e-3 of them."""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _equal(*shape: int) -> Any:
    """Numbers of which each sum is rounded the same way."""
    return np.full(shape, 0.1, np.float32)


def _rms(x: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


LONG: dict[str, tuple[Any, ...]] = {
    "all": (jnp.sum, _equal(1024, 1024)),
    "the last axis": (lambda x: x.sum(-1), _equal(3, 100_000)),
    "the first axis": (lambda x: x.sum(0), _equal(100_000, 3)),
    "an axis between": (lambda x: x.mean(1), _equal(2, 100_003, 3)),
    "an image's places": (lambda x: x.mean((1, 2)), _equal(1, 512, 512, 4)),
    "the variance": (lambda x: x.var(-1), 1000 + np.arange(100_000, dtype=np.float32) % 7),
    "running": (jnp.cumsum, _equal(100_000)),
    "running back": (lambda x: lax.cumsum(x, 0, reverse=True), _equal(100_003, 2)),
    "two vectors": (jnp.dot, _equal(100_000), _equal(100_000)),
    "two vectors of a batch": (
        lambda x, y: jnp.einsum("bk,bk->b", x, y),
        _equal(3, 100_000),
        _equal(3, 100_000),
    ),
    "an RMS norm": (_rms, _equal(2, 100_000)),
}


@pytest.mark.parametrize("name", LONG)
def test_a_sum_of_many_numbers_of_one_sign_keeps_its_digits(name: str) -> None:
    function, *inputs = LONG[name]
    (found,), (plain,) = results_of(function, *inputs)
    assert found.shape == plain.shape
    with jax.enable_x64():
        truth = np.asarray(jax.jit(function)(*(each.astype(np.float64) for each in inputs)))
    assert np.max(np.abs(found / truth - 1)) <= RELATIVE_MAX


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [255, 256, 257, 1009, 70_000])
def test_a_running_sum_of_whole_numbers_is_exact(size: int, reverse: bool) -> None:
    numbers = (np.arange(size) % 5).astype(np.float32)
    (found,), (plain,) = results_of(lambda x: lax.cumsum(x, 0, reverse=reverse), numbers)
    assert np.array_equal(found, plain)


def test_a_convolution_that_adds_many_products_one_after_the_other_is_refused() -> None:
    def function(x: Any, w: Any) -> Any:
        return lax.conv(x, w, (1,), "VALID")

    made, _ = compiled(function, _equal(1, 1, 9000), _equal(1, 1, 8000))
    assert made.problem and "stablehlo.convolution of 8000 numbers" in made.words


@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 2.0**-20, 1e-300, 1e300])
@pytest.mark.parametrize("centred", [False, True])
def test_a_norm_of_doubles_has_its_own_epsilon(epsilon: float, centred: bool) -> None:
    """An operator of ONNX would have the nearest float32: 0, or another one by 1e-8 of itself."""

    def norm(x: Any) -> Any:
        if centred:
            x = x - x.mean(-1, keepdims=True)
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + epsilon)

    rows = np.array([[0, 0, 0], [1e150, 0, 0], [1e-3, 2e-3, -1e-3], [1e-150, 3e-150, 0]])
    (found,), (plain,) = results_of(norm, rows)
    assert np.allclose(found, plain, rtol=1e-13, atol=0, equal_nan=True)


SMALL: dict[str, Any] = {
    "a sigmoid": jax.nn.sigmoid,
    "its logarithm": lambda x: jnp.log(jax.nn.sigmoid(x)),
    "a SiLU": jax.nn.silu,
    "a softplus": jax.nn.softplus,
    "an exponential less one": jnp.expm1,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SMALL)
def test_small_results_have_as_many_digits_as_others(name: str, dtype: Any) -> None:
    numbers = np.linspace(-60, 0, 3001).astype(dtype)
    (found,), _ = results_of(SMALL[name], numbers)
    with jax.enable_x64():
        truth = np.asarray(jax.jit(SMALL[name])(numbers.astype(np.float64)))
    most = {np.float32: 2e-6, np.float64: 1e-14}[dtype]
    assert np.max(np.abs(found - truth) / np.maximum(np.abs(truth), 1e-30)) <= most
