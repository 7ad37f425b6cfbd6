"""The child's side of a job.

It needs only msgspec and a little of aotc_runtime, so that it also runs in environments without
aotc, from a copy of its modules.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
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
"""Prefixes of lines that report what the child starts, and which item it has finished. Other lines
are ignored: code that runs at the start of an interpreter may print, too.
"""


class Progress:
    """Reports what a child starts and finishes, a line each; `folder` is that of its job."""

    def __init__(self, stream: TextIO, folder: Path) -> None:
        self._stream, self._folder = stream, folder

    @classmethod
    def claim_stdout(cls, folder: Path) -> Progress:
        """Take this process's stdout for reports; later output goes to stderr, which is kept."""
        sys.stdout.flush()
        stream = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        stream.write("\n")  # ends what was printed before without an end
        # Forks of user code may live on, and the parent reads until the last writer closes.
        os.register_at_fork(after_in_child=partial(os.close, stream.fileno()))
        os.dup2(2, 1)
        return cls(stream, folder)

    def started(self, what: str) -> None:
        """Report work for messages, after "while": "tracing predict (digits.model:predict)"."""
        self._stream.write(f"{STARTED}{what}\n")

    def finished(self, item: str) -> None:
        """Report an item by its name, or its result in one line."""
        self._stream.write(f"{FINISHED}{item}\n")

    def refuse(self, error: AotcError) -> NoReturn:
        """End the process at once, from any thread; the parent raises the findings."""
        _end(_write_findings(self._folder, error))


def end_with_parent() -> None:
    """Make the kernel kill this process when its starting thread ends (prctl(2), Linux only)."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def answer[J](job_type: type[J], work: Callable[[J, Progress], Any]) -> NoReturn:
    """Do the job in the folder that the last argument names, store the result, and end.

    The parent raises the AotcError that `work` raises.
    """
    end_with_parent()
    folder = Path(sys.argv[-1])
    _end(_run_job(folder, job_type, work, Progress.claim_stdout(folder)))


def _end(status: int) -> NoReturn:
    """End now, without waiting for threads of user code or shutting down clients and plugins."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run_job[J](
    folder: Path, job_type: type[J], work: Callable[[J, Progress], Any], progress: Progress
) -> int:
    """Do the job, and return the exit status."""
    job = msgspec.msgpack.decode((folder / JOB).read_bytes(), type=job_type)
    try:
        try:
            _leave(folder / ANSWER, msgspec.msgpack.encode(work(job, progress)))
        except AotcError as error:
            return _write_findings(folder, error)
    except OSError as error:
        if error.errno not in FULL:
            raise
        return NO_ROOM
    return 0


def _write_findings(folder: Path, error: AotcError) -> int:
    findings = [finding.to_json() for finding in error.findings]
    _leave(folder / FINDINGS, msgspec.json.encode(findings))
    return error.exit_code


def _leave(path: Path, data: bytes) -> None:
    """Write a file completely or not at all, should the disk be full."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.rename(path)


def process_figure(name: str, base: int = 10) -> int:
    """Return a figure of this process (proc_pid_status(5)); 0 where the system has none."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1], base)
    return 0


def peak_bytes() -> int | None:
    """Resident memory of this process at its highest.

    Not from `getrusage`: that starts with what the parent had when it started this process.
    """
    return process_figure("VmHWM") * 1024 or None
