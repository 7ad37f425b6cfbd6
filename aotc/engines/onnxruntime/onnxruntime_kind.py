"""Target files for processors that ONNX Runtime runs on."""

from __future__ import annotations

from typing import Literal

from aotc.compile.compiler_protocol import Backend, Candidate, plugin_requirements
from aotc.compile.cpu.cpu_kind import ProcessorKind, ProcessorModel
from aotc_runtime.engines.onnxruntime.onnxruntime_names import ENGINE, PROVIDER, RUNTIME
from aotc_runtime.schema.bundle_manifest import BuiltWith, DeviceRequirements, Target


class OnnxModel(ProcessorModel):
    """A processor that ONNX Runtime runs on."""

    platform: Literal["onnxruntime"]


class OnnxKind(ProcessorKind[OnnxModel]):
    """Processors as ONNX Runtime runs on them."""

    model = OnnxModel
    platform = ENGINE
    checked = "run"
    packs_weights = True

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        """The release that made the graphs, whose operators of its own no other need have. The
        processor's memory counts once, as the host's.
        """
        return plugin_requirements((PROVIDER,), RUNTIME, built_with, 0)

    def candidates(self) -> tuple[Candidate, ...]:
        """Whose threads compute a call."""
        from aotc.engines.onnx_graphs.graph_compiler import thread_candidates
        from aotc.engines.onnx_graphs.graph_job import CALLING, POOL, SPINNING

        return thread_candidates(ENGINE, CALLING, POOL, SPINNING)

    def backend(self) -> Backend:
        """The installed ONNX Runtime."""
        from aotc.engines.onnxruntime.onnxruntime_compiler import OnnxBackend

        return OnnxBackend()
