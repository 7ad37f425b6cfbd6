"""`python -m aotc.backends.cuda.worker`: compile `module.bin` here as `job.json` says, for GPUs
that are described there. Uses jaxlib and the plugin alone.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.backends.worker_process import RESULT_FILE
from aotc.backends.xla.worker import Problem, Result
from aotc.processes import end_with_parent

NEUTRAL_CPU = "x86-64"
"""What executables say of the processor that compiled them, whichever it was."""


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile for. plugin: path of the library.  text: the device's description.
    devices: how many there are.  triple: of their host.
    """

    plugin: str
    text: str
    devices: int
    triple: str
    options: dict[str, str]


def compile_job(job: Job, artifact: bytes) -> tuple[Result, bytes]:
    """Compile; the executable's bytes, or a problem in the result."""
    from aotc.backends.xla import plugins, private, topology
    from aotc.backends.xla.examine import examine_module
    from aotc_runtime.schema.kernels import cuda_module

    if absent := private.missing((*private.NAMES, *plugins.NAMES)):
        return Result(problem=Problem.JAXLIB, words="no " + ", ".join(absent)), b""
    called: tuple[str, ...] = ()
    try:
        plugin = plugins.load("cuda", job.plugin)
        described = plugins.describe(
            plugin, {"target_config": job.text, "topology": f"1x1x{job.devices}"}
        )
    except private.XlaError as error:
        return Result(problem=Problem.TARGET, words=str(error)), b""
    try:
        described = topology.with_host(described, job.triple, NEUTRAL_CPU)
    except topology.UnknownTopologyError as error:
        return Result(problem=Problem.JAXLIB, words=str(error)), b""
    try:
        module = private.read_artifact(artifact)
        called = tuple(private.custom_call_targets(module))
        operations = private.operations(module)
        plugins.register_cuda_kernels(
            plugin, {name for target in called if (name := cuda_module(target))}
        )
        started = time.perf_counter()
        executable = plugins.compile_for(described, module, job.options)
    except (private.XlaError, private.MlirError, ValueError) as error:
        return Result(problem=Problem.PROGRAM, words=str(error), called=called), b""
    result = Result(
        called=called,
        compile_seconds=time.perf_counter() - started,
        hlo_text=private.hlo_text(executable),
        memory=private.memory(executable),
        cost=private.cost(private.cpu_client(), executable),
        evidence=examine_module(private.hlo_proto(executable), operations, job.options),
    )
    return result, executable.serialize()


def main() -> None:
    end_with_parent()
    job = msgspec.json.decode(Path("job.json").read_bytes(), type=Job)
    result, serialized = compile_job(job, Path("module.bin").read_bytes())
    Path("executable.bin").write_bytes(serialized)
    Path(RESULT_FILE).write_bytes(msgspec.json.encode(result))
    # Nothing that follows is of use, and taking the plugin down takes time.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
