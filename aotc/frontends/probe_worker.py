"""`python -m aotc.frontends.probe_worker FOLDER`: reads modules, and writes them anew."""

from __future__ import annotations

import resource
from pathlib import Path

import jax.export
from jax.interpreters import mlir

from aotc.frontends.probe import MIB, Job
from aotc.frontends.protocol import ModelFile
from aotc.frontends.stablehlo import parse, refused_as_damaged
from aotc.workers.child import Progress, answer


def write_anew(job: Job, progress: Progress) -> None:
    """Raises CaptureError (AOTC-E843) for what is no module."""
    _limit(job)
    for number in range(job.count):
        path = Path(job.folder, str(number))
        progress.started(f"reading {job.text}")
        file = ModelFile(job.text, path.read_bytes(), None, _nothing_beside, enable_x64=False)
        with mlir.make_ir_context(), refused_as_damaged(file, job.expected):
            if job.kind == "jax.export":
                exported = jax.export.deserialize(bytearray(file.data))
                module = exported.mlir_module(serialized=False)
                module.operation.verify()
            else:
                module = parse(file, job.expected)
            with path.with_suffix(".read").open("wb") as stream:
                module.operation.write_bytecode(stream)


def _limit(job: Job) -> None:
    """From here on: the memory that it has so far is its libraries'."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(spent.ru_utime + spent.ru_stime) + job.seconds
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = _data_bytes() + job.memory_mib * MIB
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _data_bytes() -> int:
    """What RLIMIT_DATA counts, of this process (proc(5), VmData)."""
    for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def _nothing_beside(path: str) -> bytes:
    raise FileNotFoundError(path)


if __name__ == "__main__":
    answer(Job, write_anew)
