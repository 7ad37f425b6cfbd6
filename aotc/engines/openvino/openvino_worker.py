"""Compiles a job's module: `python -m aotc.engines.openvino.openvino_worker`.

jaxlib reads the module, onnx writes the graph, and openvino converts it to its own format.
"""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aotc.base.evidence import OPENVINO
from aotc.compile.worker_results import Result
from aotc.engines.onnx_graphs import graph_worker
from aotc.engines.onnx_graphs.graph_job import CALLING, Job
from aotc_runtime.engines.openvino.openvino_compilation import compile_model, last_line, read_model
from aotc_runtime.engines.openvino.openvino_engine import package
from aotc_runtime.engines.openvino.openvino_names import POOLED, SINGLE
from aotc_runtime.engines.openvino.openvino_reader import Graph, read

WORDS = {"f32": "FP32", "i1": "BOOL", "i32": "I32", "i8": "I8", "ui8": "U8"}
"""OpenVINO's words for types of elements."""

_WORDS_MAX = 300


def compile_job(job: Job) -> Result:
    """Translate the module and turn the graph into OpenVINO's own."""
    return graph_worker.compile_job(job, OPENVINO, _take)


def _take(made: graph_worker.Translated) -> graph_worker.Taken:
    from aotc.engines.onnx_graphs.graph_model import model_of
    from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError
    from aotc.engines.openvino.openvino_exact import require_exact
    from aotc.engines.openvino.openvino_repairs import repair, state_sizes

    require_exact(made.program, made.graph)
    openvino = package()
    core = openvino.Core()
    try:
        model = core.read_model(model_of(made.graph).SerializeToString(), b"")
        tensors = made.graph.names.tensors
        state_sizes(model, {name: each.shape for name, each in tensors.items()})
        repair(model)
    except Exception as error:
        raise UnsupportedError(last_line(error)[:_WORDS_MAX]) from error
    with TemporaryDirectory() as folder:
        xml, constants = Path(folder, "graph.xml"), Path(folder, "graph.bin")
        openvino.serialize(model, xml, constants)
        text = xml.read_bytes()
        begin = SINGLE if made.threads == CALLING else POOLED
        serialized = begin + len(text).to_bytes(8, "little") + text + constants.read_bytes()
    graph = read(memoryview(serialized))
    expected = tuple((each.shape, WORDS[each.element]) for each in made.program.returned)
    if graph.results != expected:
        raise UnsupportedError(f"a program whose results become {graph.results}"[:_WORDS_MAX])
    _require_loadable(openvino, graph)
    kinds = Counter(node.get_type_name() for node in model.get_ordered_ops())
    return graph_worker.Taken(serialized, dict(sorted(kinds.items())))


def _require_loadable(openvino: Any, graph: Graph) -> None:
    """Raise UnsupportedError for a graph that loaders refuse. Nothing of the result is kept."""
    from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError

    library = openvino._pyopenvino
    core = library.Core()
    try:
        compile_model(library, core, read_model(library, core, graph, {}), threads=1)
    except Exception as error:
        raise UnsupportedError(last_line(error)[:_WORDS_MAX]) from error


if __name__ == "__main__":
    from aotc.base.workers.worker_child import answer

    answer(Job, lambda job, progress: compile_job(job))
