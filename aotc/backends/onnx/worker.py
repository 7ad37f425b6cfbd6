"""`python -m aotc.backends.onnx.worker`: compile the module of a job. Uses jaxlib, which reads the
module, onnx, which writes the graph, and onnxruntime, which optimizes it.
"""

from __future__ import annotations

from pathlib import Path

from aotc.backends.onnx_graphs import work
from aotc.backends.onnx_graphs.job import Job
from aotc.backends.results import Result
from aotc.evidence import ONNX_RUNTIME


def compile_job(job: Job) -> Result:
    """Translate the module and optimize the graph."""
    return work.compile_job(job, ONNX_RUNTIME, _optimized)


def _optimized(made: work.Translated) -> work.Taken:
    from aotc.backends.onnx import optimize

    model = optimize.optimized(made.graph, Path())
    serialized = optimize.with_weights_outside(model, made.weights, made.threads)
    return work.Taken(serialized, optimize.operators(model))


if __name__ == "__main__":
    from aotc.workers.child import answer

    answer(Job, lambda job, progress: compile_job(job))
