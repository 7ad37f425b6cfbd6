"""PyTorch as it is: operation by operation, the model made in every process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def prepare(case: Path) -> Sequence[Path]:
    return [case / "weights.npz"]


def imports() -> None:
    import numpy  # noqa: F401
    import torch  # noqa: F401


def as_arrays(model: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A model with numpy in and numpy out."""
    import torch

    def call(given: Any) -> Any:
        with torch.inference_mode():
            result = model(torch.from_numpy(given))
        if isinstance(result, torch.Tensor):
            return result.numpy()
        return [each.numpy() for each in result]

    return call


def load(case: Path) -> Callable[[Any], Any]:
    from benchmarks.compare.torch_models import model

    return as_arrays(model(case))


def leaves(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list) else [result]


def version() -> str:
    import torch

    return f"torch {torch.__version__}"
