"""In a compile worker for CPUs: compiles one module to one executable.

Everything that compiling needs is imported here, so that the compiling thread imports nothing; why,
`aotc.compile.xla.xla_worker` says.
"""

from io import BytesIO
from typing import Any

import numpy as np

from aotc.compile.binary import protobuf
from aotc.compile.cpu import cpu_isa
from aotc.compile.mlir.mlir_context import embed
from aotc.compile.worker_results import Problem, ProblemError, Result, problem_as_result
from aotc.compile.xla import (
    constant_nan,
    cpu_topology,
    jaxlib_private,
    xla_custom_calls,
    xla_objects,
    ynn_fusions,
)
from aotc.compile.xla.artifact_compiler import compile_artifact, require_names
from aotc.compile.xla.xla_job import Job
from aotc_runtime.engines.xla.xla_features import PRODUCTS_ALONE, YNN_OPTION


@problem_as_result
def compile_job(job: Job, *, randomized: bool, own_threads: bool) -> Result:
    """Compile for the target; `randomized` and `own_threads` are recorded in the `Result`."""
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
            with np.load(BytesIO(job.constants)) as values:
                embed(module, {int(index): values[index] for index in values.files})
        if any(xla_custom_calls.is_lapack(target) for target in called):
            jaxlib_private.register_lapack()

    def guarded(module: Any, called: tuple[str, ...]) -> None:
        prepare(module, called)
        constant_nan.guard(module)

    added: dict[str, str] = {}

    def compile_module(module: Any) -> Any:
        options = {**added, **job.options}
        return jaxlib_private.compile_module(module, machine, client, options, job.devices)

    made = compile_artifact(job.artifact, prepare, compile_module)
    hlo_text = jaxlib_private.hlo_text(made.executable)
    if YNN_OPTION not in job.options and ynn_fusions.has_wrong_fusion(hlo_text):
        added = PRODUCTS_ALONE
        made = compile_artifact(job.artifact, prepare, compile_module)
        hlo_text = jaxlib_private.hlo_text(made.executable)
    if constant_nan.known_nan(hlo_text):
        made = compile_artifact(job.artifact, guarded, compile_module)
        hlo_text = jaxlib_private.hlo_text(made.executable)
        if found := constant_nan.known_nan(hlo_text):
            words = constant_nan.WORDS + ", ".join(found)
            raise ProblemError(Problem.PROGRAM, words, made.called)
    serialized = made.executable.serialize()
    try:
        changed = count_changed_options(serialized, jaxlib_private.default_options())
    except ValueError as error:
        raise ProblemError(Problem.JAXLIB, str(error)) from error
    return Result(
        serialized=serialized,
        called=made.called,
        compile_seconds=made.seconds,
        hlo_text=hlo_text,
        memory=jaxlib_private.memory(made.executable),
        cost=jaxlib_private.cost(client, made.executable),
        randomized=randomized,
        own_threads=own_threads,
        operations=made.operations,
        debug_options=changed,
        added_options=added,
    )


_DEBUG_OPTIONS = (3, 3)
"""Field numbers of xla/pjrt/proto/compile_options.proto: CompileOptionsProto
{executable_build_options = 3}, ExecutableBuildOptionsProto {debug_options = 3}."""


def count_changed_options(serialized: bytes, defaults: bytes) -> int:
    """Return how many debug options of an executable differ from those of a CompileOptionsProto.

    Raises UnknownLayoutError.
    """
    try:
        mine, others = _options(xla_objects.compile_options(serialized)), _options(defaults)
    except ValueError as error:
        raise xla_objects.UnknownLayoutError(f"no debug options: {error}") from error
    return sum(mine.get(number) != others.get(number) for number in mine.keys() | others.keys())


def _options(compile_options: bytes) -> dict[int, tuple[int | bytes, ...]]:
    data = compile_options
    for number in _DEBUG_OPTIONS:
        inner = [f.value for f in protobuf.parse(data) if f.number == number]
        if not inner or isinstance(inner[-1], int):
            raise ValueError(f"no field {number}")
        data = inner[-1]
    found: dict[int, tuple[int | bytes, ...]] = {}
    for field in protobuf.parse(data):
        found[field.number] = (*found.get(field.number, ()), field.value)
    return found
