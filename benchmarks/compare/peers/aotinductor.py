"""PyTorch's AOTInductor: a package of compiled C++, loaded through Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def prepare(case: Path) -> Sequence[Path]:
    import numpy as np
    import torch

    from benchmarks.compare.torch_models import model

    given = torch.from_numpy(np.load(case / "input.npy"))
    with torch.inference_mode():
        exported = torch.export.export(model(case).eval(), (given,))
        package = torch._inductor.aoti_compile_and_package(
            exported, package_path=str(case / "model.pt2")
        )
    return [Path(package)]


def imports() -> None:
    import numpy  # noqa: F401
    import torch._inductor  # noqa: F401


def load(case: Path) -> Callable[[Any], Any]:
    import torch

    compiled = torch._inductor.aoti_load_package(str(case / "model.pt2"))

    def call(given: Any) -> Any:
        with torch.inference_mode():
            result = compiled(torch.from_numpy(given))
        if isinstance(result, torch.Tensor):
            return result.numpy()
        return [each.numpy() for each in result]

    return call


def leaves(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list) else [result]


def version() -> str:
    import torch

    return f"torch {torch.__version__}"
