"""In a compile worker for CPUs: compiles one module to one executable.

Everything that compiling needs is imported here, so that the compiling thread imports nothing; why,
`aotc.compile.xla.xla_worker` says.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from aotc.compile.cpu import cpu_isa
from aotc.compile.mlir.embedded_constants import embed
from aotc.compile.worker_results import Problem, ProblemError, Result, problem_as_result
from aotc.compile.xla import cpu_topology, debug_options, jaxlib_private, xla_custom_calls
from aotc.compile.xla.artifact_compiler import compile_artifact, require_names
from aotc.compile.xla.xla_job import Job


@problem_as_result
def compile_job(job: Job, *, randomized: bool, own_threads: bool) -> Result:
    """Compile for the target. randomized, own_threads: as in `Result`."""
    require_names()
    client = jaxlib_private.cpu_client(len(job.devices))
    try:
        host = cpu_topology.read_machine(jaxlib_private.host_topology(client))
    except cpu_topology.UnknownTopologyError as error:
        raise ProblemError(Problem.JAXLIB, str(error)) from error
    known = cpu_isa.names(host.features.split(","))
    if unknown := sorted(set(job.features) - known):
        raise ProblemError(Problem.TARGET, "no feature " + ", ".join(unknown))
    machine = cpu_topology.Machine(
        job.triple, job.cpu, cpu_isa.llvm(job.features, job.tuning, known)
    )

    def prepare(module: Any, called: tuple[str, ...]) -> None:
        if job.constants:
            _embed(module, job.constants)
        if any(xla_custom_calls.is_lapack(target) for target in called):
            jaxlib_private.register_lapack()

    made = compile_artifact(
        job.artifact,
        prepare,
        lambda module: jaxlib_private.compile_module(
            module, machine, client, job.options, job.devices
        ),
    )
    serialized = made.executable.serialize()
    try:
        changed = debug_options.changed(serialized, jaxlib_private.default_options())
    except ValueError as error:
        raise ProblemError(Problem.JAXLIB, str(error)) from error
    return Result(
        serialized=serialized,
        called=made.called,
        compile_seconds=made.seconds,
        hlo_text=jaxlib_private.hlo_text(made.executable),
        memory=jaxlib_private.memory(made.executable),
        cost=jaxlib_private.cost(client, made.executable),
        randomized=randomized,
        own_threads=own_threads,
        operations=made.operations,
        debug_options=changed,
    )


def _embed(module: Any, constants: bytes) -> None:
    with np.load(BytesIO(constants)) as values:
        embed(module, {int(index): values[index] for index in values.files})
