"""Target files for processors that OpenVINO runs on."""

from __future__ import annotations

from typing import Literal

from aotc.compile.compiler_protocol import Backend, Candidate, plugin_requirements
from aotc.compile.cpu.cpu_kind import ProcessorKind, ProcessorModel
from aotc_runtime.engines.openvino.openvino_names import DEVICE, ENGINE, RUNTIME
from aotc_runtime.schema.bundle_manifest import BuiltWith, DeviceRequirements, Target


class OpenvinoModel(ProcessorModel):
    """A processor that OpenVINO runs on."""

    platform: Literal["openvino"]


class OpenvinoKind(ProcessorKind[OpenvinoModel]):
    """Processors as OpenVINO runs on them."""

    model = OpenvinoModel
    platform = ENGINE
    checked = "run"
    packs_weights = True

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        """The release that the graphs were checked with: it makes the code, where they run. The
        processor's memory counts once, as the host's.
        """
        return plugin_requirements((DEVICE,), RUNTIME, built_with, 0)

    def candidates(self) -> tuple[Candidate, ...]:
        """Whose threads compute a call."""
        from aotc.engines.onnx_graphs.graph_compiler import thread_candidates
        from aotc.engines.onnx_graphs.graph_job import CALLING, POOL

        return thread_candidates(ENGINE, CALLING, POOL)

    def backend(self) -> Backend:
        """The installed OpenVINO."""
        from aotc.engines.openvino.openvino_compiler import OpenvinoBackend

        return OpenvinoBackend()
