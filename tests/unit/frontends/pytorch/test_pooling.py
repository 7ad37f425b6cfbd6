"""Pooling over axes whose size varies; sizes that are known are compared with PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from aotc.frontends.pytorch.operators import torch_pooling

POOLS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: torch_pooling._max_pool(x, [3], [2], [1], [1], True, rank=1),
    "max of few": lambda x: torch_pooling._max_pool(x, [2], [3], [0], [1], True, rank=1),
    "mean": lambda x: torch_pooling._avg_pool(x, [3], [2], [1], True, False, None, rank=1),
    "mean of padding too": lambda x: torch_pooling._avg_pool(
        x, [3], [2], [1], True, True, None, rank=1
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_last_window_that_reaches_beyond_is_that_of_each_size(name: str) -> None:
    shape = export.symbolic_shape("1,2,n", constraints=["n >= 3"])
    every = export.export(jax.jit(POOLS[name]))(jax.ShapeDtypeStruct(shape, jnp.float32))
    for size in range(3, 12):
        x = np.random.default_rng(size).normal(size=(1, 2, size)).astype(np.float32)
        np.testing.assert_allclose(every.call(x), POOLS[name](x), rtol=1e-6)


RESIZED: dict[str, Callable[[Any], Any]] = {
    "nearest": lambda x: torch_pooling._nearest(x, 2, 7, False, None, exact=False),
    "linear": lambda x: torch_pooling._linear(x, 2, 7, False, None),
    "linear aligned": lambda x: torch_pooling._linear(x, 2, 7, True, None),
    "cubic": lambda x: torch_pooling._cubic(x, 2, 7, False, None),
    "antialiased": lambda x: torch_pooling._smooth(x, 2, 7, False, None, cubic=False),
}


@pytest.mark.parametrize("name", RESIZED)
def test_resizing_from_a_known_size_makes_no_integers_of_numbers(name: str) -> None:
    """OpenVINO refuses that conversion; where the size varies, the same is computed in the call."""
    x = np.random.default_rng(0).normal(size=(1, 2, 19)).astype(np.float32)
    module = jax.jit(RESIZED[name]).lower(x).as_text()
    assert not re.search(r"stablehlo.convert .*f32>\) -> tensor<.*i32>", module)
    shape = export.symbolic_shape("1,2,n")
    every = export.export(jax.jit(RESIZED[name]))(jax.ShapeDtypeStruct(shape, jnp.float32))
    np.testing.assert_allclose(every.call(x), jax.jit(RESIZED[name])(x), rtol=1e-5, atol=1e-6)
