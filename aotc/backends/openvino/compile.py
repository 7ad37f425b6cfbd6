"""The OpenVINO backend: modules to graphs in its own format."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.backends.compile_workers import SECONDS_MAX
from aotc.backends.onnx_graphs.compile import GraphBackend
from aotc.backends.onnx_graphs.job import CALLING, POOL
from aotc.backends.onnx_graphs.packages import FORMAT
from aotc.workers import parent
from aotc_runtime.engines.openvino.names import ENGINE, RUNTIME

WORKER = parent.module("aotc.backends.openvino.worker")


class OpenvinoBackend(GraphBackend):
    """The installed OpenVINO, with our translation for it."""

    platform, name, extra = ENGINE, "OpenVINO", "openvino"
    threads = (CALLING, POOL)
    packages = (FORMAT, RUNTIME)

    def __init__(self, worker: Sequence[str] = WORKER, seconds_max: float = SECONDS_MAX) -> None:
        super().__init__(worker, seconds_max)
