"""`python -m aotc.backends.onnx.worker`: compile the module of a job. Uses jaxlib, which reads the
module, onnx, which writes the graph, and onnxruntime, which optimizes it.
"""

from __future__ import annotations

import time
from pathlib import Path

from aotc.backends.onnx.job import Job
from aotc.backends.results import Problem, ProblemError, Result, problem_as_result
from aotc.evidence import (
    ONNX_RUNTIME,
    CompilerRecord,
    ExecutableEvidence,
    MemoryPlan,
    Optimized,
    Place,
)

POOLED_FLOPS = 3_000_000
"""Operations of a call from which ONNX Runtime's pool may be faster than the calling thread."""


@problem_as_result
def compile_job(job: Job) -> Result:
    """Translate the module and optimize the graph."""
    from aotc.backends.onnx import model, program
    from aotc.backends.onnx.translate import translate
    from aotc.backends.xla import private

    called: tuple[str, ...] = ()
    try:
        module = private.read_artifact(job.artifact)
        called = tuple(private.custom_call_targets(module))
        operations = private.operations(module)
        if called:
            raise ProblemError(Problem.PROGRAM, "", called)
        cost = private.module_cost(private.cpu_client(), module)
        main = program.read(module)
        memory = {
            "argument": sum(value.size_bytes for value in main.arguments),
            "output": sum(value.size_bytes for value in main.returned),
            "alias": 0,
            # What ONNX Runtime packs or folds of the weights is a copy of them.
            "temp": sum(main.arguments[place].size_bytes for place in job.weights),
        }
        started = time.perf_counter()
        graph = translate(main, job.weights)
        optimized = model.optimized(model.model_of(graph), Path())
    except (
        private.XlaError,
        private.MlirError,
        ValueError,
        program.UnsupportedError,
    ) as error:
        raise ProblemError(Problem.PROGRAM, str(error), called) from error
    pooled = cost.get("flops", 0) >= POOLED_FLOPS
    serialized = model.with_weights_outside(optimized, job.weights, pooled=pooled)
    return Result(
        serialized=serialized,
        called=called,
        compile_seconds=time.perf_counter() - started,
        memory={**memory, "temp": memory["temp"] + graph.most_bytes()},
        cost=cost,
        operations=operations,
        evidence=ExecutableEvidence(
            operations=operations,
            compilation=CompilerRecord(options={}, debug_options=None, pipelines=()),
            optimized=Optimized(instructions={}, fusions={}, custom_calls={}),
            placement=(Place(name=ONNX_RUNTIME, steps=model.operators(optimized)),),
            plan=MemoryPlan(allocations={}, values=0, value_bytes=0),
            kernels={},
        ),
    )


if __name__ == "__main__":
    from aotc.workers.child import answer

    answer(Job, lambda job, progress: compile_job(job))
