"""`torch.compile`, which compiles at the first call; later processes find that in its cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.compare.peers.torch_eager import as_arrays, imports, leaves, prepare, version

__all__ = ["imports", "leaves", "load", "prepare", "version"]


def load(case: Path) -> Callable[[Any], Any]:
    import torch

    from benchmarks.compare.torch_models import model

    return as_arrays(torch.compile(model(case)))
