"""What calls of a target's executables need, measured in a process of its own.

XLA's analysis does not know what its libraries allocate while they multiply, convolve or factorize.
That depends on the processor and its caches, so that it is no part of a bundle: two builds of one
program have the same bytes wherever they run.
"""

from __future__ import annotations

import platform
from pathlib import Path

from msgspec import Struct

from aotc.base.child_processes import Processes
from aotc.base.workers import worker_parent
from aotc.base.workers.worker_environment import inherited
from aotc.check.peak_memory import MALLOC
from aotc_runtime.base.errors import AotcError

SECONDS_MAX = 1800
"""How long a process may measure: it makes some calls of every fixture."""


class Job(Struct, frozen=True):
    """bundle, policy: paths.  threads: of XLA's pool."""

    bundle: str
    policy: str
    target: str
    threads: int


def run(
    bundle: Path, policy: Path, target: str, threads: int, folder: Path, processes: Processes
) -> dict[str, int]:
    """Bytes that a call of each executable needs, by label: "predict[batch=8]".

    Nothing where it cannot be measured: without glibc, on a host that cannot run the target, and if
    the process fails, which parity tells better. threads: of XLA's pool.  folder: for the process.
    """
    if platform.libc_ver()[0] != "glibc":
        return {}
    kept = inherited(without=("XLA_", "TF_", "MALLOC_"))
    try:
        return worker_parent.run(
            worker_parent.module("aotc.check.memory_worker"),
            Job(str(bundle), str(policy), target, threads),
            dict[str, int],
            within=folder,
            environment={**kept, **MALLOC},
            processes=processes,
            seconds=SECONDS_MAX,
        )
    except (AotcError, worker_parent.CrashedError):
        return {}
