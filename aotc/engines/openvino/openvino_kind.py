"""Target files for processors that OpenVINO runs on."""

from typing import Literal

from aotc.compile.cpu.cpu_kind import ProcessorModel
from aotc.compile.target_model import TRIPLES
from aotc.engines.onnx_graphs.graph_job import CALLING, POOL
from aotc.engines.onnx_graphs.graph_kind import Engine, GraphKind
from aotc_runtime.engines.openvino.openvino_names import DEVICE, ENGINE, RUNTIME


class OpenvinoModel(ProcessorModel):
    """A processor that OpenVINO runs on."""

    platform: Literal["openvino"]


class OpenvinoKind(GraphKind[OpenvinoModel]):
    """Processors as OpenVINO runs on them. It makes the code where they run.

    Not on Arm, where OpenVINO 2026.4 adds int32 as float32 and loses NaN in softmax and compares.
    """

    model = OpenvinoModel
    triples = TRIPLES
    checked = "run"
    platform = ENGINE
    kernels = ("int4 weights", "int8 weights")
    engine = Engine(
        platform=ENGINE,
        name="OpenVINO",
        extra="openvino",
        runtime=RUNTIME,
        device=DEVICE,
        threads=(CALLING, POOL),
        worker="aotc.engines.openvino.openvino_worker",
    )
