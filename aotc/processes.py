"""Child processes that end with the work they belong to, also when another thread says so.

Each leads a process group of its own, and whatever it has started in there ends with it: the
programs of users start processes, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from aotc import group_guard

PR_SET_PDEATHSIG = 1

GRACE_SECONDS = 1.0
"""From SIGTERM to SIGKILL, for what a user's program has started: to remove what it shares."""


_UNASKED = frozenset(
    {
        "PYTHONDUMPREFS",
        "PYTHONDUMPREFSFILE",
        "PYTHONINSPECT",
        "PYTHONIOENCODING",
        "PYTHONMALLOCSTATS",
        "PYTHONPROFILEIMPORTTIME",
        "PYTHONSTARTUP",
        "PYTHONTRACEMALLOC",
        "PYTHONVERBOSE",
    }
)
"""By these an interpreter prints what nobody asked a child for, or in a way that its parent does
not read, or goes on at its end
(https://docs.python.org/3/using/cmdline.html#environment-variables).
"""


class StoppedError(Exception):
    """Nothing is started any more; whoever said so has the reason."""


class Child(subprocess.Popen[Any]):
    """A process that leads a group; it is over when nothing of the group is left.

    grace: seconds from SIGTERM to SIGKILL; 0 for SIGKILL at once.
    """

    def __init__(self, command: Sequence[str], grace: float, **options: Any) -> None:
        super().__init__(command, process_group=0, **options)
        self._grace = grace
        self._over = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._clear, daemon=True, name="aotc-child").start()

    def poll(self) -> int | None:
        """As `subprocess.Popen`."""
        return super().poll() if self._over.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """As `subprocess.Popen`."""
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return super().wait()

    def end(self) -> None:
        """Begin to end all of it, and do not wait for that."""
        self._signal(signal.SIGTERM if self._grace else signal.SIGKILL)
        if self._grace and not self._over.is_set():
            later = threading.Timer(self._grace, self._signal, [signal.SIGKILL])
            later.daemon = True
            later.start()

    def _clear(self) -> None:
        """End what the leader leaves. Until then it is not reaped, so that its number is no other
        group's.
        """
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        try:
            if self._grace:
                group_guard.end(self.pid, self._grace)
            else:
                self._signal(signal.SIGKILL)
        finally:
            with self._lock:
                self._over.set()

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if not self._over.is_set():
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)


class Processes:
    """The running child processes of one piece of work. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Child] = set()
        self._stopped = False

    @contextmanager
    def started(
        self, command: Sequence[str], *, grace: float = 0.0, **options: Any
    ) -> Iterator[Child]:
        """A child process, ended with all that it started if the block ends before it. grace: as
        of `Child`; with one, it all ends with this process, too, however that ends.  options: as
        `subprocess.Popen`'s.

        Raises StoppedError after `stop`.
        """
        with self._lock:
            if self._stopped:
                raise StoppedError
            process = Child(command, grace, **options)
            self._running.add(process)
        guard = None
        try:
            guard = _guard(process.pid) if grace else None
            yield process
        finally:
            process.end()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
            if guard is not None:
                guard.kill()
                guard.communicate()
            with self._lock:
                self._running.discard(process)

    def run(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
    ) -> tuple[int, list[str]]:
        """Run a command in a folder to its end: its status, and the lines it printed anywhere.

        Raises TimeoutExpired after so many seconds, StoppedError after `stop`.
        """
        with self.started(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            printed, _ = process.communicate(timeout=seconds)
        return process.returncode, printed.decode(errors="replace").strip().splitlines()

    def stop(self) -> None:
        """End what runs, and start nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.end()


def _guard(group: int) -> subprocess.Popen[bytes]:
    """A process that ends a group when this one has ended without doing so."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", group_guard.__file__, str(group), str(GRACE_SECONDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )


def inherited(*, without: tuple[str, ...]) -> dict[str, str]:
    """The variables of this process for one that runs Python and answers somebody. without: how
    those begin that it must not see.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _UNASKED and not name.startswith(without)
    }


def last_line(printed: bytes) -> bytes:
    """The answer of a process that prints it in one line, whatever was printed before."""
    return printed.rstrip(b"\n").rpartition(b"\n")[2]


def end_with_parent() -> None:
    """In a child: be killed when the thread that started it ends, however that ends (prctl(2)).

    For children of processes that others run and kill. On Linux; elsewhere nothing happens.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def answers_only() -> IO[bytes]:
    """In a child whose stdout is read as its answer: that stdout. What libraries print there from
    now on goes to stderr.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def describe_status(status: int) -> str:
    """An exit status for people: the signal's name for a crash."""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"
