"""`jax.jit`, traced and compiled in every process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def prepare(case: Path) -> Sequence[Path]:
    return [case / "params.pickle"]


def imports() -> None:
    import jax  # noqa: F401


def compiled(params_file: Path, function: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """The function with its parameters on the device, numpy in and numpy out."""
    import jax
    import numpy as np

    params = jax.device_put(pickle.loads(params_file.read_bytes()))
    jitted = jax.jit(function)

    def call(given: Any) -> Any:
        result = jitted(params, given)
        if isinstance(result, jax.Array):
            return np.asarray(result)
        return jax.tree.map(np.asarray, result)

    return call


def load(case: Path) -> Callable[[Any], Any]:
    from benchmarks.compare.cases import function_of

    return compiled(case / "params.pickle", function_of(case.name.partition("-")[0]))


def leaves(result: Any) -> Sequence[Any]:
    import jax

    found: list[Any] = jax.tree.leaves(result)
    return found


def version() -> str:
    from importlib.metadata import version

    return f"jax {version('jax')}"
