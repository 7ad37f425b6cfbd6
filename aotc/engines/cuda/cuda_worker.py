"""Compiles a module for the GPUs that its job describes: `python -m aotc.engines.cuda.cuda_worker`.

Uses jaxlib, the plugin, and cramjam.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from aotc.base.evidence import ExecutableEvidence
from aotc.base.workers.worker_child import answer
from aotc.compile.binary import elf, protobuf
from aotc.compile.worker_results import Problem, ProblemError, Result, problem_as_result
from aotc.compile.xla import xla_objects
from aotc.compile.xla.executable_records import messages
from aotc.compile.xla.hlo_module import memory_plan

MACHINE = 190
"""The ELF machine number EM_CUDA."""

DEPTH_MAX = 100
"""Messages around a kernel: a few, and some more for each loop that it is in."""


def cubins(message: bytes, depth: int = 0) -> Iterator[bytes]:
    """Yield the ELF files for CUDA devices in a protobuf message, one for each kernel."""
    if depth > DEPTH_MAX:
        return
    try:
        fields = protobuf.parse(message)
    except ValueError:
        return
    for field in fields:
        if isinstance(field.value, bytes) and elf.MAGIC in field.value:
            if field.value.startswith(elf.MAGIC) and field.value[0x12:0x14] == bytes((MACHINE, 0)):
                yield field.value
            else:
                yield from cubins(field.value, depth + 1)


def with_code(evidence: ExecutableEvidence, serialized: bytes) -> ExecutableEvidence:
    """Return the evidence with these two added, unless the bytes' layout is unknown."""
    try:
        parts = list(messages(serialized))
        assignments = [xla_objects.assignment_of_module(part) for part in parts]
        plans = [memory_plan(found) for found in assignments if found is not None]
        return replace(evidence, plan=plans[0] if plans else evidence.plan, kernels=_kernels(parts))
    except ValueError:
        return evidence


def _kernels(parts: Iterable[bytes]) -> dict[str, int]:
    """Return bytes of machine code by function, those of one name together. Raises ValueError."""
    sizes: Counter[str] = Counter()
    for part in parts:
        for kernel in cubins(part):
            for function in elf.functions(kernel):
                sizes[function.name] += len(function.code)
    return dict(sorted(sizes.items()))


NEUTRAL_CPU = "x86-64"
"""The host processor that every executable states, whichever compiled it."""


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """A module to compile, and the devices to compile it for.

    artifact: the module.  plugin: path of the library.  text: the device's description.
    devices: how many there are.  triple: of their host.
    """

    artifact: bytes
    plugin: str
    text: str
    devices: int
    triple: str
    options: dict[str, str]


@problem_as_result
def compile_job(job: Job) -> Result:
    """Compile for the described GPUs."""
    from aotc.compile.xla import cpu_topology, jaxlib_private, pjrt_plugins
    from aotc.compile.xla.artifact_compiler import compile_artifact, require_names
    from aotc.compile.xla.cpu_evidence import examine_module
    from aotc_runtime.schema.served_kernels import cuda_module

    require_names((*jaxlib_private.NAMES, *pjrt_plugins.NAMES))
    try:
        plugin = pjrt_plugins.load("cuda", job.plugin)
        described = pjrt_plugins.describe(
            plugin, {"target_config": job.text, "topology": f"1x1x{job.devices}"}
        )
    except jaxlib_private.XlaError as error:
        raise ProblemError(Problem.TARGET, str(error)) from error
    try:
        hosted = cpu_topology.with_host(described, job.triple, NEUTRAL_CPU)
    except cpu_topology.UnknownTopologyError as error:
        raise ProblemError(Problem.JAXLIB, str(error)) from error

    def register(module: Any, called: tuple[str, ...]) -> None:
        kernels = {name for target in called if (name := cuda_module(target))}
        pjrt_plugins.register_cuda_kernels(plugin, kernels)

    made = compile_artifact(
        job.artifact, register, lambda module: pjrt_plugins.compile_for(hosted, module, job.options)
    )
    hlo_proto, serialized = jaxlib_private.hlo_proto(made.executable), made.executable.serialize()
    return Result(
        serialized=serialized,
        called=made.called,
        compile_seconds=made.seconds,
        hlo_text=jaxlib_private.hlo_text(made.executable),
        memory=jaxlib_private.memory(made.executable),
        cost=jaxlib_private.cost(jaxlib_private.cpu_client(), made.executable),
        evidence=with_code(examine_module(hlo_proto, made.operations, job.options), serialized),
    )


if __name__ == "__main__":
    answer(Job, lambda job, progress: compile_job(job))
