"""The ONNX Runtime backend: modules to ONNX graphs that it has optimized."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.base.workers import worker_parent
from aotc.compile.compile_workers import SECONDS_MAX
from aotc.engines.onnx_graphs.graph_compiler import FORMAT, GraphBackend
from aotc.engines.onnx_graphs.graph_job import CALLING, POOL, SPINNING
from aotc_runtime.engines.onnxruntime.onnxruntime_names import ENGINE, RUNTIME

WORKER = worker_parent.module("aotc.engines.onnxruntime.onnxruntime_worker")


class OnnxBackend(GraphBackend):
    """The installed ONNX Runtime, with our translation for it."""

    platform, name, extra = ENGINE, "ONNX Runtime", "onnx"
    packages = (FORMAT, RUNTIME)
    threads = (CALLING, POOL, SPINNING)

    def __init__(self, worker: Sequence[str] = WORKER, seconds_max: float = SECONDS_MAX) -> None:
        super().__init__(worker, seconds_max)
