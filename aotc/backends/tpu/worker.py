"""`python -m aotc.backends.tpu.worker`: compile `module.bin` here as `job.json` says, for TPUs that
are described there. Uses jaxlib and libtpu alone.

One executable per process: libtpu numbers modules, and the numbers are in the bytes.
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


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile for. plugin: path of the library.  description: what libtpu is told of the
    topology beside its name.  kinds: of which its devices have to be one.
    """

    plugin: str
    topology: str
    description: dict[str, str | list[int]]
    kinds: tuple[str, ...]
    devices: int
    options: dict[str, str]


def compile_job(job: Job, artifact: bytes) -> tuple[Result, bytes]:
    """Compile; the executable's bytes, or a problem in the result."""
    from aotc.backends.xla import plugins, private
    from aotc.backends.xla.examine import examine_module

    if absent := private.missing((*private.NAMES, *plugins.NAMES)):
        return Result(problem=Problem.JAXLIB, words="no " + ", ".join(absent)), b""
    try:
        plugin = plugins.load("tpu", job.plugin)
        plugins.initialize("tpu")
        described = plugins.describe(plugin, job.description, job.topology)
        kinds = plugins.kinds(described)
    except private.XlaError as error:
        return Result(problem=Problem.TARGET, words=str(error)), b""
    if len(kinds) < job.devices or not set(kinds) <= set(job.kinds):
        words = f"{len(kinds)} devices, {' and '.join(sorted(set(kinds)))}"
        return Result(problem=Problem.TARGET, words=words), b""
    called: tuple[str, ...] = ()
    try:
        module = private.read_artifact(artifact)
        called = tuple(private.custom_call_targets(module))
        operations = private.operations(module)
        started = time.perf_counter()
        executable = plugins.compile_for(described, module, job.options)
    except (private.XlaError, private.MlirError, ValueError) as error:
        return Result(problem=Problem.PROGRAM, words=str(error), called=called), b""
    result = Result(
        called=called,
        compile_seconds=time.perf_counter() - started,
        hlo_text=private.hlo_text(executable),
        memory={**private.memory(executable), "code": plugins.code_bytes(executable)},
        cost=plugins.cost(executable),
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
