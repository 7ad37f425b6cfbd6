"""`jax.jit` with a persistent compilation cache that holds the program already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare.peers import jit
from benchmarks.compare.peers.jit import imports, leaves, version

__all__ = ["imports", "leaves", "load", "prepare", "version"]


def prepare(case: Path) -> Sequence[Path]:
    import numpy as np

    load(case)(np.load(case / "input.npy"))
    cached = [path for path in (case / "cache").rglob("*") if path.is_file()]
    return [case / "params.pickle", *cached]


def load(case: Path) -> Callable[[Any], Any]:
    import jax

    jax.config.update("jax_compilation_cache_dir", str(case / "cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return jit.load(case)
