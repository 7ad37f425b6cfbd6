"""`python -m aotc.backends.openvino.worker`: compile the module of a job. Uses jaxlib, which reads
the module, onnx, which writes the graph, and openvino, which turns it into its own format.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from aotc.backends.onnx_graphs import work
from aotc.backends.onnx_graphs.job import CALLING, Job
from aotc.backends.results import Result
from aotc.evidence import OPENVINO
from aotc_runtime.engines.openvino.device import PROPERTIES, last_line
from aotc_runtime.engines.openvino.engine import package
from aotc_runtime.engines.openvino.names import DEVICE, POOLED, SINGLE
from aotc_runtime.engines.openvino.reading import read

WORDS = {"f32": "FP32", "i1": "BOOL", "i32": "I32", "i8": "I8", "ui8": "U8"}
"""OpenVINO's words for types of elements."""

_WORDS_MAX = 300


def compile_job(job: Job) -> Result:
    """Translate the module and turn the graph into OpenVINO's own."""
    return work.compile_job(job, OPENVINO, _taken)


def _taken(made: work.Translated) -> work.Taken:
    from aotc.backends.onnx_graphs.model import model_of
    from aotc.backends.onnx_graphs.program import UnsupportedError
    from aotc.backends.openvino.exact import require_exact
    from aotc.backends.openvino.repairs import repair, state_sizes

    require_exact(made.program, made.graph)
    openvino = package()
    core = openvino.Core()
    try:
        model = core.read_model(model_of(made.graph).SerializeToString(), b"")
        tensors = made.graph.names.tensors
        state_sizes(openvino, model, {name: each.shape for name, each in tensors.items()})
        repair(openvino, model)
        # Nothing of it is kept: what is not taken here, loaders are not given.
        core.compile_model(model, DEVICE, PROPERTIES)
    except Exception as error:
        raise UnsupportedError(last_line(error)[:_WORDS_MAX]) from error
    with TemporaryDirectory() as folder:
        xml, constants = Path(folder, "graph.xml"), Path(folder, "graph.bin")
        openvino.serialize(model, xml, constants)
        text = xml.read_bytes()
        begin = SINGLE if made.threads == CALLING else POOLED
        serialized = begin + len(text).to_bytes(8, "little") + text + constants.read_bytes()
    expected = tuple((each.shape, WORDS[each.element]) for each in made.program.returned)
    if (found := read(memoryview(serialized)).results) != expected:
        raise UnsupportedError(f"a program whose results become {found}"[:_WORDS_MAX])
    kinds = Counter(node.get_type_name() for node in model.get_ordered_ops())
    return work.Taken(serialized, dict(sorted(kinds.items())))


if __name__ == "__main__":
    from aotc.workers.child import answer

    answer(Job, lambda job, progress: compile_job(job))
