"""`python -m aotc.backends.cuda.worker`: compile a module for the GPUs that its job describes.
Uses jaxlib, the plugin, and cramjam.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from aotc.backends.results import Problem, ProblemError, Result, problem_as_result
from aotc.workers.child import answer

NEUTRAL_CPU = "x86-64"
"""The host processor that every executable states, whichever compiled it."""


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile, and for what.

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
    from aotc.backends.cuda.examine import with_code
    from aotc.backends.xla import plugins, private, topology
    from aotc.backends.xla.artifacts import compile_artifact, require_names
    from aotc.backends.xla.examine import examine_module
    from aotc_runtime.schema.kernels import cuda_module

    require_names((*private.NAMES, *plugins.NAMES))
    try:
        plugin = plugins.load("cuda", job.plugin)
        described = plugins.describe(
            plugin, {"target_config": job.text, "topology": f"1x1x{job.devices}"}
        )
    except private.XlaError as error:
        raise ProblemError(Problem.TARGET, str(error)) from error
    try:
        hosted = topology.with_host(described, job.triple, NEUTRAL_CPU)
    except topology.UnknownTopologyError as error:
        raise ProblemError(Problem.JAXLIB, str(error)) from error

    def register(module: Any, called: tuple[str, ...]) -> None:
        kernels = {name for target in called if (name := cuda_module(target))}
        plugins.register_cuda_kernels(plugin, kernels)

    made = compile_artifact(
        job.artifact, register, lambda module: plugins.compile_for(hosted, module, job.options)
    )
    hlo_proto, serialized = private.hlo_proto(made.executable), made.executable.serialize()
    return Result(
        serialized=serialized,
        called=made.called,
        compile_seconds=made.seconds,
        hlo_text=private.hlo_text(made.executable),
        memory=private.memory(made.executable),
        cost=private.cost(private.cpu_client(), made.executable),
        evidence=with_code(examine_module(hlo_proto, made.operations, job.options), serialized),
    )


if __name__ == "__main__":
    answer(Job, lambda job, progress: compile_job(job))
