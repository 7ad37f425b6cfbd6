"""The ONNX Runtime backend: modules to ONNX graphs that it has optimized."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.backends.compile_workers import SECONDS_MAX
from aotc.backends.onnx_graphs.compile import GraphBackend
from aotc.backends.onnx_graphs.job import CALLING, POOL, SPINNING
from aotc.backends.onnx_graphs.packages import FORMAT
from aotc.workers import parent
from aotc_runtime.engines.onnxruntime.names import ENGINE, RUNTIME

WORKER = parent.module("aotc.backends.onnx.worker")


class OnnxBackend(GraphBackend):
    """The installed ONNX Runtime, with our translation for it."""

    platform, name, extra = ENGINE, "ONNX Runtime", "onnx"
    packages = (FORMAT, RUNTIME)
    threads = (CALLING, POOL, SPINNING)

    def __init__(self, worker: Sequence[str] = WORKER, seconds_max: float = SECONDS_MAX) -> None:
        super().__init__(worker, seconds_max)
