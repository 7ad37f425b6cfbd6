"""In a compile worker for CPUs: compiles one module to one executable.

Everything that compiling needs is imported here, so that the compiling thread imports nothing; why,
`aotc.backends.xla.worker` says.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from aotc.backends.cpu import isa
from aotc.backends.results import Problem, ProblemError, Result, problem_as_result
from aotc.backends.xla import custom_calls, debug_options, private, topology
from aotc.backends.xla.artifacts import compile_artifact, require_names
from aotc.backends.xla.constants import embed
from aotc.backends.xla.job import Job


@problem_as_result
def compile_job(job: Job, *, randomized: bool, own_threads: bool) -> Result:
    """Compile for the target. randomized, own_threads: as in `Result`."""
    require_names()
    client = private.cpu_client(len(job.devices))
    try:
        host = topology.read_machine(private.host_topology(client))
    except topology.UnknownTopologyError as error:
        raise ProblemError(Problem.JAXLIB, str(error)) from error
    known = isa.names(host.features.split(","))
    if unknown := sorted(set(job.features) - known):
        raise ProblemError(Problem.TARGET, "no feature " + ", ".join(unknown))
    machine = topology.Machine(job.triple, job.cpu, isa.llvm(job.features, job.tuning, known))

    def prepare(module: Any, called: tuple[str, ...]) -> None:
        if job.constants:
            _embed(module, job.constants)
        if any(custom_calls.is_lapack(target) for target in called):
            private.register_lapack()

    made = compile_artifact(
        job.artifact,
        prepare,
        lambda module: private.compile_module(module, machine, client, job.options, job.devices),
    )
    serialized = made.executable.serialize()
    try:
        changed = debug_options.changed(serialized, private.default_options())
    except ValueError as error:
        raise ProblemError(Problem.JAXLIB, str(error)) from error
    return Result(
        serialized=serialized,
        called=made.called,
        compile_seconds=made.seconds,
        hlo_text=private.hlo_text(made.executable),
        memory=private.memory(made.executable),
        cost=private.cost(client, made.executable),
        randomized=randomized,
        own_threads=own_threads,
        operations=made.operations,
        debug_options=changed,
    )


def _embed(module: Any, constants: bytes) -> None:
    with np.load(BytesIO(constants)) as values:
        embed(module, {int(index): values[index] for index in values.files})
