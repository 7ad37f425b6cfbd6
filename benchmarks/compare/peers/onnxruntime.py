"""ONNX Runtime, as its documentation shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def prepare(case: Path) -> Sequence[Path]:
    from benchmarks.compare.onnx_graphs import write

    return [write(case, case / "model.onnx")]


def imports() -> None:
    import onnxruntime  # noqa: F401


def load(case: Path) -> Callable[[Any], Any]:
    import onnxruntime

    run = onnxruntime.InferenceSession(case / "model.onnx", providers=["CPUExecutionProvider"]).run

    def call(given: Any) -> Any:
        return run(None, {"input": given})

    return call


def leaves(result: Any) -> Sequence[Any]:
    return list(result)


def version() -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"
