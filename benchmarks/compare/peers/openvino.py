"""OpenVINO on the graph written for ONNX Runtime, in its own format and at full precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def prepare(case: Path) -> Sequence[Path]:
    import openvino

    from benchmarks.compare.onnx_graphs import write

    model = openvino.Core().read_model(write(case, case / "model.onnx"))
    openvino.save_model(model, case / "model.xml", compress_to_fp16=False)
    return [case / "model.xml", case / "model.bin"]


def imports() -> None:
    import openvino  # noqa: F401


def load(case: Path) -> Callable[[Any], Any]:
    import openvino

    # By default it computes in bfloat16 where the processor can, which the other peers do not.
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(case / "model.xml", "CPU", options)

    def call(given: Any) -> Any:
        return compiled([given])

    return call


def leaves(result: Any) -> Sequence[Any]:
    return [result[index] for index in range(len(result))]


def version() -> str:
    import openvino

    return f"openvino {openvino.__version__}"
