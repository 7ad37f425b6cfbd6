"""The child's side of a job.

It needs msgspec and a little of aotc_runtime only, so that it also runs in environments without
aotc, from a copy of the modules that it is made of.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TextIO

import msgspec

from aotc.base.constants import FULL, NO_ROOM
from aotc_runtime.base.errors import AotcError

PR_SET_PDEATHSIG = 1
"""<sys/prctl.h>: the signal that a process gets when its parent ends."""

JOB, ANSWER, FINDINGS = "job.msgpack", "answer.msgpack", "findings.json"

STARTED, FINISHED = "> ", "< "
"""Begin a line that says what the child does from here on, or which item it has finished. Others
are nobody's: what the start of an interpreter runs may print, too.
"""


class Progress:
    """What a child starts and finishes, a line each. folder: that of its job."""

    def __init__(self, stream: TextIO, folder: Path) -> None:
        self._stream, self._folder = stream, folder

    @classmethod
    def claim_stdout(cls, folder: Path) -> Progress:
        """Take this process' stdout for progress. What is printed from here on goes to stderr,
        which the parent keeps.
        """
        sys.stdout.flush()
        stream = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        stream.write("\n")  # ends what was printed before without an end
        # What the user's code forks off may live on; the parent reads until nobody can write.
        os.register_at_fork(after_in_child=partial(os.close, stream.fileno()))
        os.dup2(2, 1)
        return cls(stream, folder)

    def started(self, what: str) -> None:
        """what: for messages, after "while": "tracing predict (digits.model:predict)"."""
        self._stream.write(f"{STARTED}{what}\n")

    def finished(self, item: str) -> None:
        """item: its name, or what came of it, in one line."""
        self._stream.write(f"{FINISHED}{item}\n")

    def refuse(self, error: AotcError) -> NoReturn:
        """End the process here and now, from whichever thread; the parent raises the findings."""
        _end(_refused(self._folder, error))


def end_with_parent() -> None:
    """Have this process killed when the thread that started it ends, however that ends (prctl(2)).

    On Linux; elsewhere nothing happens.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def answer[J](job_type: type[J], work: Callable[[J, Progress], Any]) -> NoReturn:
    """Do the job in the folder that the last argument of this process names, leave there what
    `work` returns, and end the process. What `work` refuses by an AotcError, the parent raises.
    """
    end_with_parent()
    folder = Path(sys.argv[-1])
    _end(_answered(folder, job_type, work, Progress.claim_stdout(folder)))


def _end(status: int) -> NoReturn:
    """End now, whatever threads somebody's code has left running, and without the time that it
    takes to shut down a client or a plugin.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _answered[J](
    folder: Path, job_type: type[J], work: Callable[[J, Progress], Any], progress: Progress
) -> int:
    """The status to end with."""
    job = msgspec.msgpack.decode((folder / JOB).read_bytes(), type=job_type)
    try:
        try:
            _leave(folder / ANSWER, msgspec.msgpack.encode(work(job, progress)))
        except AotcError as error:
            return _refused(folder, error)
    except OSError as error:
        if error.errno not in FULL:
            raise
        return NO_ROOM
    return 0


def _refused(folder: Path, error: AotcError) -> int:
    findings = [finding.to_json() for finding in error.findings]
    _leave(folder / FINDINGS, msgspec.json.encode(findings))
    return error.exit_code


def _leave(path: Path, data: bytes) -> None:
    """Write a file that is whole or not there, should the disk be full."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.rename(path)
