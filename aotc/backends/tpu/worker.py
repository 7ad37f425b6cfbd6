"""`python -m aotc.backends.tpu.worker`: compile a module for the TPUs that its job describes.
Uses jaxlib and libtpu alone.

One executable per process: libtpu numbers modules, and the numbers are in the bytes.
"""

from __future__ import annotations

from msgspec import Struct

from aotc.backends.results import Problem, ProblemError, Result, problem_as_result
from aotc.workers.child import answer


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile, and for what.

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
    from aotc.backends.xla import plugins, private
    from aotc.backends.xla.artifacts import compile_artifact, require_names
    from aotc.backends.xla.examine import examine_module

    require_names((*private.NAMES, *plugins.NAMES))
    try:
        plugin = plugins.load("tpu", job.plugin)
        plugins.initialize("tpu")
        described = plugins.describe(plugin, job.description, job.topology)
        kinds = plugins.kinds(described)
    except private.XlaError as error:
        raise ProblemError(Problem.TARGET, str(error)) from error
    if len(kinds) < job.devices or not set(kinds) <= set(job.kinds):
        words = f"{len(kinds)} devices, {' and '.join(sorted(set(kinds)))}"
        raise ProblemError(Problem.TARGET, words)
    made = compile_artifact(
        job.artifact,
        lambda module, called: None,
        lambda module: plugins.compile_for(described, module, job.options),
    )
    hlo_proto = private.hlo_proto(made.executable)
    code = plugins.code_bytes(made.executable)
    return Result(
        serialized=made.executable.serialize(),
        called=made.called,
        compile_seconds=made.seconds,
        hlo_text=private.hlo_text(made.executable),
        memory={**private.memory(made.executable), "code": code},
        cost=plugins.cost(made.executable),
        evidence=examine_module(hlo_proto, made.operations, job.options),
    )


if __name__ == "__main__":
    answer(Job, lambda job, progress: compile_job(job))
