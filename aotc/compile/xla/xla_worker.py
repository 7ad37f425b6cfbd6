"""`python -m aotc.compile.xla.xla_worker`: compile the module of a job.

One executable for each process, which a zygote may have forked (`aotc.base.workers.zygote`): buffer
assignment and the order of kernels depend on heap and address layout, so that a second compilation
in the same process, or one with address space randomization, gives other bytes. Uses jaxlib alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aotc.compile.worker_results import Result
    from aotc.compile.xla.xla_job import Job

ADDR_NO_RANDOMIZE = 0x0040000
QUERY = 0xFFFFFFFF

PROCESSORS = "PJRT_NPROC"
"""The variable with the number of processors that XLA sees."""


def fix_address_layout() -> bool:
    """Restart this process without address space randomization.

    True if it cannot be turned off, as in some container runtimes; the build then notes it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    persona = int(libc.personality(QUERY))
    if persona == -1:
        return True
    if not persona & ADDR_NO_RANDOMIZE:
        if libc.personality(persona | ADDR_NO_RANDOMIZE) == -1:
            return True
        os.execv(sys.executable, sys.orig_argv)
    return False


def prepare() -> None:
    """Import what compiling needs, in the order in which every process does.

    The zygote that forks compilers runs only this: all else would be in every fork's memory.
    """
    fix_address_layout()  # before anything else: a process that starts anew would do it twice
    if count := os.environ.get(PROCESSORS):
        from aotc.compile.xla import processor_count

        # Before numpy is imported, which starts as many threads.
        processor_count.pretend(int(count))
    from aotc.base.workers import worker_child
    from aotc.compile.xla import cpu_artifact_compiler

    assert cpu_artifact_compiler and worker_child


def compile_reproducibly(job: Job) -> Result:
    """Compile a job in this process, whose memory is laid out the same way each time."""
    randomized = fix_address_layout()
    from aotc.compile.xla import processor_count

    own_threads = not processor_count.pretend(job.threads)
    # Imports leave paths of various lengths on the heap. A new thread has a malloc arena of its
    # own: since it imports nothing, the compiler finds the same heap each time.
    from aotc.compile.xla.cpu_artifact_compiler import compile_job

    outcome: list[Result] = []
    thread = threading.Thread(
        target=lambda: outcome.append(
            compile_job(job, randomized=randomized, own_threads=own_threads)
        )
    )
    thread.start()
    thread.join()
    if not outcome:
        sys.exit("the compile thread ended by the exception above")
    return outcome[0]


def main() -> None:
    """Compile the job."""
    prepare()
    from aotc.base.workers.worker_child import answer
    from aotc.compile.xla.xla_job import Job

    answer(Job, lambda job, progress: compile_reproducibly(job))


if __name__ == "__main__":
    main()
