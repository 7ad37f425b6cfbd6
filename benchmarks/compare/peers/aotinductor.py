"""PyTorch's AOTInductor: a package of compiled C++, loaded through Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare.peers.torch_eager import as_arrays, leaves, version

__all__ = ["imports", "leaves", "load", "prepare", "version"]


def prepare(case: Path) -> Sequence[Path]:
    import torch

    from benchmarks.compare.torch_models import exported

    with torch.inference_mode():
        package = torch._inductor.aoti_compile_and_package(
            exported(case), package_path=str(case / "model.pt2")
        )
    return [Path(package)]


def imports() -> None:
    import numpy  # noqa: F401
    import torch._inductor  # noqa: F401


def load(case: Path) -> Callable[[Any], Any]:
    import torch

    return as_arrays(torch._inductor.aoti_load_package(str(case / "model.pt2")))
