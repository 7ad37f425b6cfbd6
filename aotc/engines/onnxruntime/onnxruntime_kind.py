"""Target files for processors that ONNX Runtime runs on."""

from typing import Literal

from aotc.compile.compiler_protocol import RANGES
from aotc.compile.cpu.cpu_kind import ProcessorModel
from aotc.engines.onnx_graphs.graph_job import CALLING, POOL, SPINNING
from aotc.engines.onnx_graphs.graph_kind import Engine, GraphKind
from aotc_runtime.engines.onnxruntime.onnxruntime_names import ENGINE, PROVIDER, RUNTIME


class OnnxModel(ProcessorModel):
    """A processor that ONNX Runtime runs on."""

    platform: Literal["onnxruntime"]


class OnnxKind(GraphKind[OnnxModel]):
    """Processors on which ONNX Runtime runs.

    Its graphs have operators of its own, which other releases may lack.
    """

    model = OnnxModel
    platform = ENGINE
    kernels = ("int4 weights", "int8 weights", "8-bit activations", RANGES)
    engine = Engine(
        platform=ENGINE,
        name="ONNX Runtime",
        extra="onnx",
        runtime=RUNTIME,
        device=PROVIDER,
        threads=(CALLING, POOL, SPINNING),
        worker="aotc.engines.onnxruntime.onnxruntime_worker",
        levels=("1", "4"),
    )
