"""Child processes that end with the work they belong to, also when another thread says so."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


class StoppedError(Exception):
    """Nothing is started any more; whoever said so has the reason."""


class Processes:
    """The running child processes of one piece of work. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[Any]] = set()
        self._stopped = False

    @contextmanager
    def started(self, command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
        """A child process, killed if the block ends before it. options: as `subprocess.Popen`'s;
        with process_group=0 the processes that it started are killed with it.

        Raises StoppedError after `stop`.
        """
        with self._lock:
            if self._stopped:
                raise StoppedError
            process = subprocess.Popen(command, **options)
            self._running.add(process)
        try:
            yield process
        finally:
            _kill(process)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
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
        """Kill what runs, and start nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)


def _kill(process: subprocess.Popen[Any]) -> None:
    if process.poll() is not None:
        return
    # A process that leads no group of its own is in ours.
    with suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def end_with_parent() -> None:
    """In a child: be killed when the thread that started it ends, however that ends (prctl(2)).

    For children of processes that others run and kill. On Linux; elsewhere nothing happens.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def describe_status(status: int) -> str:
    """An exit status for people: the signal's name for a crash."""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"
