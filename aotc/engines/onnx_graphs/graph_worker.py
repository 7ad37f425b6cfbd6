"""Workers that compile programs as graphs. They use jaxlib, which reads the module."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from aotc.base import evidence
from aotc.compile.worker_results import Problem, ProblemError, Result, problem_as_result
from aotc.engines.onnx_graphs.graph_job import CALLING, POOL, Job

if TYPE_CHECKING:
    from aotc.engines.onnx_graphs.graph_builder import Graph
    from aotc.engines.onnx_graphs.stablehlo_program import Block

POOLED_FLOPS = 3_000_000
"""FLOPs of an operation from which a pool of threads may be faster than the calling thread."""


class Translated(NamedTuple):
    """A parsed program and its graph.

    `weights` are indexes of weights among the parameters; `threads` is that of the job.
    """

    program: Block
    graph: Graph
    weights: Collection[int]
    threads: str


class Taken(NamedTuple):
    """The result of an engine's compiler, with the number of each operator in it."""

    serialized: bytes
    operators: dict[str, int]


def _largest(program: Block) -> int:
    """Return the FLOPs of the largest operation; where there are loops, of those within.

    Waking the threads of a pool costs more than they save in a short operation, and an LSTM's loop
    wakes them in each step: it took twice as long as in the calling thread.
    """
    loops = [b for each in program.walk() if each.name == "stablehlo.while" for b in each.blocks]
    every = [each for block in loops or [program] for each in block.walk()]
    return max((o.flops for o in every if not o.blocks or o.name == "stablehlo.reduce"), default=0)


@problem_as_result
def compile_job(job: Job, engine: str, take: Callable[[Translated], Taken]) -> Result:
    """Translate the module of a job; `engine` is its name in the evidence.

    `take` passes the graph to the engine's compiler, and raises UnsupportedError.
    """
    from aotc.compile.mlir import mlir_context
    from aotc.compile.xla import jaxlib_private
    from aotc.engines.onnx_graphs import stablehlo_program as program
    from aotc.engines.onnx_graphs.graph_builder import Kernels
    from aotc.engines.onnx_graphs.graph_ranges import Generalizer
    from aotc.engines.onnx_graphs.graph_translation import translate

    called: tuple[str, ...] = ()
    try:
        module = mlir_context.read_artifact(job.artifact)
        called = tuple(jaxlib_private.custom_call_targets(module))
        operations = jaxlib_private.operations(module)
        if called:
            raise ProblemError(Problem.PROGRAM, "", called)
        cost = jaxlib_private.module_cost(jaxlib_private.cpu_client(), module)
        main = program.read(module)
        memory = {
            "argument": sum(value.size_bytes for value in main.arguments),
            "output": sum(value.size_bytes for value in main.returned),
            "alias": 0,
            # What the engine packs or folds of the weights is a copy of them.
            "temp": sum(main.arguments[place].size_bytes for place in job.weights),
        }
        threads = POOL if _largest(main) >= POOLED_FLOPS else CALLING
        started = time.perf_counter()
        kernels = Kernels(
            operators=engine == evidence.ONNX_RUNTIME,
            signed=job.vnni,
            rounding=job.accuracy == "4",
            ranged=bool(job.artifacts),
        )
        graph = translate(main, job.weights, kernels)
        if job.artifacts:
            _, *others = map(mlir_context.read_artifact, job.artifacts.values())
            read = [program.read(each) for each in others]
            alike = [graph, *(translate(each, job.weights, kernels, graph) for each in read)]
            graphs = dict(zip(job.artifacts, alike, strict=True))
            graph = Generalizer(graphs, job.dimension).whole()
        taken = take(Translated(main, graph, job.weights, job.threads or threads))
    except (
        jaxlib_private.XlaError,
        jaxlib_private.MlirError,
        ValueError,
        program.UnsupportedError,
    ) as error:
        raise ProblemError(Problem.PROGRAM, str(error), called) from error
    return Result(
        serialized=taken.serialized,
        called=called,
        compile_seconds=time.perf_counter() - started,
        memory={**memory, "temp": memory["temp"] + graph.most_bytes()},
        cost=cost,
        operations=operations,
        evidence=evidence.ExecutableEvidence(
            operations=operations,
            compilation=evidence.CompilerRecord(
                {"onnxruntime-accuracy-level": job.accuracy} if job.accuracy else {}, None, ()
            ),
            optimized=evidence.Optimized(instructions={}, fusions={}, custom_calls={}),
            placement=(evidence.LibraryWork(name=engine, steps=taken.operators),),
            plan=evidence.MemoryPlan(allocations={}, values=0, value_bytes=0),
            kernels={},
        ),
    )
