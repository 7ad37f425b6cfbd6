"""Compiles a module for the TPUs that its job describes: `python -m aotc.engines.tpu.tpu_worker`.

Uses jaxlib and libtpu alone. One executable per process: libtpu numbers modules, and the numbers
are in the bytes.
"""

from msgspec import Struct

from aotc.base.workers.worker_child import answer
from aotc.compile.worker_results import Problem, ProblemError, Result, problem_as_result


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """A module to compile, and the devices to compile it for.

    artifact: the module.  plugin: path of the library.  description: options of libtpu that
    describe the topology, beside its name.  kinds: the accepted kinds of devices.
    """

    artifact: bytes
    plugin: str
    topology: str
    description: dict[str, str | list[int]]
    kinds: tuple[str, ...]
    devices: int
    options: dict[str, str]


@problem_as_result
def compile_job(job: Job) -> Result:
    """Compile for the described TPUs."""
    from aotc.compile.xla import jaxlib_private, pjrt_plugins
    from aotc.compile.xla.artifact_compiler import compile_artifact, require_names
    from aotc.compile.xla.cpu_evidence import examine_module

    require_names((*jaxlib_private.NAMES, *pjrt_plugins.NAMES))
    try:
        plugin = pjrt_plugins.load("tpu", job.plugin)
        pjrt_plugins.initialize("tpu")
        described = pjrt_plugins.describe(plugin, job.description, job.topology)
        kinds = pjrt_plugins.kinds(described)
    except jaxlib_private.XlaError as error:
        raise ProblemError(Problem.TARGET, str(error)) from error
    if len(kinds) < job.devices or not set(kinds) <= set(job.kinds):
        words = f"{len(kinds)} devices, {' and '.join(sorted(set(kinds)))}"
        raise ProblemError(Problem.TARGET, words)
    made = compile_artifact(
        job.artifact,
        lambda module, called: None,
        lambda module: pjrt_plugins.compile_for(described, module, job.options),
    )
    hlo_proto = jaxlib_private.hlo_proto(made.executable)
    code = pjrt_plugins.code_bytes(made.executable)
    return Result(
        serialized=made.executable.serialize(),
        called=made.called,
        compile_seconds=made.seconds,
        hlo_text=jaxlib_private.hlo_text(made.executable),
        memory={**jaxlib_private.memory(made.executable), "code": code},
        cost=pjrt_plugins.cost(made.executable),
        evidence=examine_module(hlo_proto, made.operations, job.options),
    )


if __name__ == "__main__":
    answer(Job, lambda job, progress: compile_job(job))
