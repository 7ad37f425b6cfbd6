"""`python -m aotc.backends.tpu.worker`: compile `module.bin` here as `job.json` says, for TPUs that
are described there. Uses jaxlib and libtpu alone.

One executable per process: libtpu numbers modules, and the numbers are in the bytes.
"""

from __future__ import annotations

from msgspec import Struct

from aotc.backends.worker_folder import (
    Made,
    Problem,
    ProblemError,
    Result,
    answer,
    problem_as_result,
)


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile for. plugin: path of the library.  description: options of libtpu that
    describe the topology, beside its name.  kinds: the accepted kinds of devices.
    """

    plugin: str
    topology: str
    description: dict[str, str | list[int]]
    kinds: tuple[str, ...]
    devices: int
    options: dict[str, str]


@problem_as_result
def compile_job(job: Job, artifact: bytes) -> Made:
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
        artifact,
        lambda module, called: None,
        lambda module: plugins.compile_for(described, module, job.options),
    )
    hlo_proto = private.hlo_proto(made.executable)
    code = plugins.code_bytes(made.executable)
    result = Result(
        called=made.called,
        compile_seconds=made.seconds,
        hlo_text=private.hlo_text(made.executable),
        memory={**private.memory(made.executable), "code": code},
        cost=plugins.cost(made.executable),
        evidence=examine_module(hlo_proto, made.operations, job.options),
    )
    return result, made.executable.serialize()


if __name__ == "__main__":
    answer(Job, compile_job)
