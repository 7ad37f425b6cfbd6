"""Compiles the module of a job with IREE: `python -m aotc.engines.iree.iree_worker`.

jaxlib reads the module. Each process makes one attempt, so that a crash at a level of optimization
ends only that. IREE's errors go to stderr, for the parent to read.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

from aotc.base import evidence
from aotc.base.workers.worker_child import answer
from aotc.compile.worker_results import Problem, ProblemError, Result, problem_as_result
from aotc.engines.iree.iree_job import Job
from aotc_runtime.engines.iree.iree_names import LOCAL_SYNC, LOCAL_TASK

STATISTICS = Path("statistics.json")

POOLED_FLOPS = 30_000_000
"""Operations of a call from which two threads are faster than one: the pool costs 12 us a call, and
more where others use the processor. At 30 million (the language model's prefill of 16 tokens) it
took 0.85 of the calling thread's time, at 75 million (a ResNet-20) 0.54; both on two cores.
"""

_CONTROL_FLOW = re.compile(r"\bstablehlo\.(case|if|while)\b")

_BLOCK = re.compile(r"^ *\^bb\d+\(.*\n", re.MULTILINE)
"""The first line of a block with arguments, in the text of IREE's virtual machine."""

_NOTHING = r'\g<0>      "vm.discard.refs"() : () -> ()\n'
"""The same line, and an operation that does nothing."""


@problem_as_result
def compile_job(job: Job) -> Result:
    """Compile at the level that the flags ask for."""
    from aotc.compile.mlir import mlir_context
    from aotc.compile.xla import jaxlib_private
    from aotc.engines.iree.iree_module_text import require_supported, signature_of, text_of
    from aotc.engines.iree.repairs import UnrepairableError, repair
    from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError

    called: tuple[str, ...] = ()
    try:
        module = mlir_context.read_artifact(job.artifact)
        called = tuple(jaxlib_private.custom_call_targets(module))
        operations = jaxlib_private.operations(module)
        cost = jaxlib_private.module_cost(jaxlib_private.cpu_client(), module)
        require_supported(module)
        repair(module, job.weights)
    except (
        jaxlib_private.XlaError,
        jaxlib_private.MlirError,
        ValueError,
        UnsupportedError,
        UnrepairableError,
    ) as error:
        raise ProblemError(Problem.PROGRAM, str(error), called) from error
    parameters, results = signature_of(module)
    pooled = job.threads > 1 and cost.get("flops", 0) >= POOLED_FLOPS
    driver = job.driver or (LOCAL_TASK if pooled else LOCAL_SYNC)
    text = text_of(module, job.weights, driver)
    started = time.perf_counter()
    serialized = _compile(
        text,
        (
            *job.flags,
            f"--iree-scheduling-dump-statistics-file={STATISTICS}",
            "--iree-scheduling-dump-statistics-format=json",
        ),
    )
    if serialized is None:
        raise ProblemError(Problem.PROGRAM, "", called)
    seconds = time.perf_counter() - started
    planned = json.loads(STATISTICS.read_bytes())["stream-aggregate"]["execution"]
    memory = {
        "argument": sum(each.size_bytes for each in parameters),
        "output": sum(each.size_bytes for each in results),
        "temp": int(planned["transient-memory-size"]),
        "alias": 0,
    }
    return Result(
        serialized=serialized,
        called=called,
        compile_seconds=seconds,
        memory=memory,
        cost=cost,
        operations=operations,
        evidence=_evidence(job, operations, int(planned["dispatch-count"]), memory["temp"]),
    )


def _compile(text: str, flags: tuple[str, ...]) -> bytes | None:
    """Return the module's bytes; None if IREE has written why it has none."""
    from iree.compiler import api

    session = api.Session()
    session.set_flags(*flags)
    invocation = _parse(session, text)
    if invocation is None or not invocation.execute():
        return None
    if _CONTROL_FLOW.search(text):
        output = api.Output.open_membuffer()
        invocation.output_ir(output)
        invocation = _parse(session, separate_registers(bytes(output.map_memory()).decode()))
        if invocation is None:
            return None
    output = api.Output.open_membuffer()
    try:
        invocation.output_vm_bytecode(output)
    except ValueError:
        return None
    return bytes(output.map_memory())


def _parse(session: Any, text: str) -> Any:
    """Return an invocation that holds a module; None if IREE has written why it does not parse."""
    from iree.compiler import api

    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    source = api.Source.wrap_buffer(session, text.encode() + b"\0")
    return invocation if invocation.parse_source(source) else None


def separate_registers(text: str) -> str:
    """Return a module of IREE's virtual machine whose block arguments have registers of their own.

    IREE 3.13.0 takes a value that is last used by the first operation of a block for free at the
    block's beginning, and gives its register to an argument of the block. A jump that passes
    another value overwrites it, and a buffer that is moved out of it is lost to the argument. The
    operation that is inserted does nothing: no value is last used by it.
    """
    return _BLOCK.sub(_NOTHING, text)


def _evidence(
    job: Job, operations: dict[str, int], dispatches: int, temporary: int
) -> evidence.ExecutableEvidence:
    options = dict(flag.removeprefix("--").split("=", 1) for flag in job.flags)
    return evidence.ExecutableEvidence(
        operations=operations,
        compilation=evidence.CompilerRecord(
            options=dict(sorted(options.items())), debug_options=None, pipelines=()
        ),
        optimized=evidence.Optimized(instructions={}, fusions={}, custom_calls={}),
        placement=(evidence.LibraryWork(name=evidence.IREE, steps={"kernel": dispatches}),),
        plan=evidence.MemoryPlan(
            allocations={"temporary": evidence.Allocations(count=1, size_bytes=temporary)},
            values=0,
            value_bytes=0,
        ),
        kernels={},
    )


if __name__ == "__main__":
    answer(Job, lambda job, progress: compile_job(job))
