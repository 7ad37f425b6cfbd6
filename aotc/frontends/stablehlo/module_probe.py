"""Modules of MLIR from files of strangers, read in a process of their own first.

MLIR's readers are native code that is not made for attacks: damaged bytecode and texts that nest
deeply crash them, and some bytes keep them busy without end. What a process with limits has read
and verified it writes anew; whoever goes on takes that, which MLIR's own writer has written.
"""

import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import refusal
from aotc.base.temporary_files import temporary_folder
from aotc.base.workers import confined_process, worker_environment, worker_parent
from aotc.capture.model_files.frontend_protocol import ModelFile
from aotc_runtime.base.errors import AotcError

MIB = 2**20
SECONDS, MIB_PER_SECOND = 10, 2
"""Processor time that any file may take, and how much more a larger one. Reading 100 MiB takes one
second.
"""
PATIENCE = 60
"""How many times as long it may take by the clock, on a host that has more to do."""
MEMORY_MIB, TIMES = 1024, 16
"""What any file may take, and how many times its size besides. Text takes 8 times its size."""

type Kind = Literal["module", "jax.export", "tensorflow"]
"""Modules of any form, what jax.export has serialized, or modules that TensorFlow exported."""


class Job(Struct, frozen=True):
    """The job of the worker.

    `text` names the model file in messages. `folder` has the numbered modules to read, and gets the
    results as `0.read`. `expected` describes a valid file; `secrets` are files it must not read.
    """

    text: str
    kind: Kind
    folder: str
    count: int
    seconds: int
    memory_mib: int
    expected: str
    secrets: tuple[str, ...]


def rewritten(
    file: ModelFile, parts: Sequence[bytes], expected: str, kind: Kind = "module"
) -> list[bytes]:
    """Return modules in a file, as MLIR's bytecode, verified.

    parts: the modules, as `kind` has them.
    Raises CaptureError: AOTC-E843 for what is none, and for what crashes its reader or takes too
    much of the machine; OSError if there is no room.
    """
    size = sum(map(len, parts)) // MIB
    seconds = SECONDS + size // MIB_PER_SECOND
    within = file.scratch or Path(tempfile.gettempdir())
    with temporary_folder(within, "aotc-modules-", "") as folder:
        for number, part in enumerate(parts):
            (folder / str(number)).write_bytes(part)
        memory_mib = MEMORY_MIB + TIMES * size
        most = seconds, memory_mib
        job = Job(
            file.text, kind, str(folder), len(parts), *most, expected, confined_process.secrets()
        )
        try:
            worker_parent.run(
                # No fork of a kept zygote: a build takes that for a process that the program has
                # started, and keeps no result of it.
                worker_parent.module("aotc.frontends.stablehlo.module_probe_worker"),
                job,
                type(None),
                within=folder,
                # Threads for products of matrices, of which there are none, take time to start.
                environment=worker_environment.bare(JAX_PLATFORMS="cpu", OPENBLAS_NUM_THREADS="1"),
                processes=Processes(),
                seconds=PATIENCE * seconds,
            )
        except worker_parent.CrashedError as crash:
            raise _refusal(job, crash) from crash
        return [(folder / f"{number}.read").read_bytes() for number in range(len(parts))]


def _refusal(job: Job, crash: worker_parent.CrashedError) -> AotcError:
    if crash.late or crash.status == -signal.SIGXCPU:
        found = f"a parse of more than {job.seconds} s"
    else:
        found = f"a crash of the parser: {describe_status(crash.status)}"
    hint = (
        f"export the model anew; reading this file may take {job.seconds} s of a processor "
        f"and {job.memory_mib} MiB of memory"
    )
    return refusal("AOTC-E843", job.text, found, expected=job.expected, hint=hint)
