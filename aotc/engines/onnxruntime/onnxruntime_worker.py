"""Compiles a job's module: `python -m aotc.engines.onnxruntime.onnxruntime_worker`.

jaxlib reads the module, onnx writes the graph, and onnxruntime optimizes it.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from aotc.base.evidence import ONNX_RUNTIME
from aotc.compile.worker_results import Result
from aotc.engines.onnx_graphs import graph_worker
from aotc.engines.onnx_graphs.graph_job import Job


def compile_job(job: Job) -> Result:
    """Translate the module and optimize the graph."""
    return graph_worker.compile_job(job, ONNX_RUNTIME, _optimize)


def _optimize(made: graph_worker.Translated) -> graph_worker.Taken:
    from aotc.engines.onnxruntime import graph_optimizer

    with TemporaryDirectory() as folder:
        model = graph_optimizer.optimize(made.graph, Path(folder))
    serialized = graph_optimizer.with_weights_outside(model, made.weights, made.threads)
    return graph_worker.Taken(serialized, graph_optimizer.operators(model))


if __name__ == "__main__":
    from aotc.base.workers.worker_child import answer

    answer(Job, lambda job, progress: compile_job(job))
