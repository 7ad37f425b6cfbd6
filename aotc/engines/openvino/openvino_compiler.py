"""The OpenVINO backend: modules to graphs in its own format."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.base.workers import worker_parent
from aotc.compile.compile_workers import SECONDS_MAX
from aotc.engines.onnx_graphs.graph_compiler import FORMAT, GraphBackend
from aotc.engines.onnx_graphs.graph_job import CALLING, POOL
from aotc_runtime.engines.openvino.openvino_names import ENGINE, RUNTIME

WORKER = worker_parent.module("aotc.engines.openvino.openvino_worker")


class OpenvinoBackend(GraphBackend):
    """The installed OpenVINO, with our translation for it."""

    platform, name, extra = ENGINE, "OpenVINO", "openvino"
    threads = (CALLING, POOL)
    packages = (FORMAT, RUNTIME)

    def __init__(self, worker: Sequence[str] = WORKER, seconds_max: float = SECONDS_MAX) -> None:
        super().__init__(worker, seconds_max)
