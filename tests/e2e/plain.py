"""Plain JAX at many sizes, each of which is compiled for one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

UNOPTIMIZED = {"xla_backend_optimization_level": 0}
"""LLVM's optimizations take half of the time to compile, and change results by rounding at most."""


def compiled_at_each_size(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under `jax.jit`, for calls that are made once or twice at every size."""
    compiled: Callable[..., Any] = jax.jit(function, compiler_options=UNOPTIMIZED)
    return compiled
