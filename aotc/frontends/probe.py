"""Modules of MLIR and HDF5 files of weights, from files of strangers, read in a process of their
own first.

Their readers are native code that is not made for attacks: damaged bytecode and texts that nest
deeply crash MLIR's, and some bytes keep them busy without end. What a process with limits has read
and verified it writes anew; whoever goes on takes that, which the library's own writer has written.
"""

from __future__ import annotations

import math
import resource
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from aotc.errors import refusal
from aotc.frontends.protocol import ModelFile
from aotc.processes import Processes, describe_status
from aotc.temporaries import temporary_folder
from aotc.workers import environment, parent
from aotc.workers.forked import kept
from aotc_runtime.errors import AotcError

MIB = 2**20
SECONDS, MIB_PER_SECOND = 10, 2
"""Of a processor: what any file may take, and how much more a larger one. Reading 100 MiB takes one
second.
"""
PATIENCE = 60
"""How many times as long it may take by the clock, on a host that has more to do."""
MEMORY_MIB, TIMES = 1024, 16
"""What any file may take, and how many times its size besides. Text takes 8 times its size."""

type Kind = Literal["module", "jax.export", "hdf5"]

READER = "aotc.frontends.probe_worker"
READERS = {"hdf5": "aotc.frontends.keras.weights_worker"}
"""By kind, or the one of MLIR: forked for each file, so that many files do not import jax as many
times.
"""


class Job(Struct, frozen=True):
    """text: of the model file, for messages.  folder: it has what is to be read, by number, and
    gets what was, as `0.read`.  expected: completes that word, for a file that is damaged.
    """

    text: str
    kind: Kind
    folder: str
    count: int
    seconds: int
    memory_mib: int
    expected: str


def rewritten(
    file: ModelFile, parts: Sequence[bytes], expected: str, kind: Kind = "module"
) -> list[bytes]:
    """Modules in a file, as MLIR's bytecode, verified; or its HDF5 files.

    parts: the modules, of any form; or of "jax.export", what it has serialized.
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
        job = Job(file.text, kind, str(folder), len(parts), seconds, memory_mib, expected)
        try:
            parent.run(
                kept(READERS.get(kind, READER)),
                job,
                type(None),
                within=folder,
                environment=environment.bare(JAX_PLATFORMS="cpu"),
                processes=Processes(),
                seconds=PATIENCE * seconds,
            )
        except parent.CrashedError as crash:
            raise _refused(job, crash) from crash
        return [(folder / f"{number}.read").read_bytes() for number in range(len(parts))]


def _refused(job: Job, crash: parent.CrashedError) -> AotcError:
    if crash.late or crash.status == -signal.SIGXCPU:
        found = f"one that is not read within {job.seconds} s"
    else:
        found = f"one that ends its reader: {describe_status(crash.status)}"
    hint = (
        f"export the model anew; reading this file may take {job.seconds} s of a processor "
        f"and {job.memory_mib} MiB of memory"
    )
    return refusal("AOTC-E843", job.text, found, expected=job.expected, hint=hint)


def limit(job: Job) -> None:
    """Have this process, a reader, take no more from here on. The memory that it has so far is its
    libraries'.
    """
    spent = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(spent.ru_utime + spent.ru_stime) + job.seconds
    _at_most(resource.RLIMIT_CPU, seconds, grace=1)
    _at_most(resource.RLIMIT_CORE, 0)
    _at_most(resource.RLIMIT_DATA, _data_bytes() + job.memory_mib * MIB)


def _at_most(what: int, most: int, grace: int = 0) -> None:
    """Of what this process may have anyway. grace: from a signal that says so to SIGKILL."""
    soft, hard = (math.inf if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(what))
    resource.setrlimit(what, (int(min(soft, hard, most)), int(min(hard, most + grace))))


def _data_bytes() -> int:
    """What RLIMIT_DATA counts, of this process (proc(5), VmData)."""
    for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
