"""Child processes that end with the work they belong to, also when another thread says so.

Each leads a process group of its own, and every process of that group ends with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol


class StoppedError(Exception):
    """Nothing is started any more; whoever said so has the reason."""


class Child(subprocess.Popen[Any]):
    """A process that leads a group; it is over when nothing of the group is left."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        super().__init__(command, process_group=0, **options)
        self._over = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._clear, daemon=True, name="aotc-child").start()

    def poll(self) -> int | None:
        """The exit status once the process and those that it started are over; None until then."""
        return super().poll() if self._over.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process and those that it started to end; the exit status. Raises
        subprocess.TimeoutExpired.
        """
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return super().wait()

    def end(self) -> None:
        """Kill all of it, and do not wait for that."""
        with self._lock:
            if not self._over.is_set():
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)

    def _clear(self) -> None:
        """End what the leader leaves. Until then it is not reaped, so that its number is no other
        group's.
        """
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        try:
            self.end()
        finally:
            with self._lock:
                self._over.set()


class Ending(Protocol):
    """A process with all that it has started."""

    @property
    def stdout(self) -> IO[Any] | None: ...

    def wait(self) -> int:
        """Wait until it is over; the exit status."""

    def end(self) -> None:
        """Begin to end all of it, and do not wait for that."""


class Processes:
    """The running child processes of one piece of work. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Ending] = set()
        self._stopped = False

    @contextmanager
    def started(self, command: Sequence[str], **options: Any) -> Iterator[Child]:
        """A child process, ended with its group if the block ends before it. options: as
        `subprocess.Popen`'s.

        Raises StoppedError after `stop`.
        """
        with self.running(lambda: Child(command, **options)) as process:
            yield process

    @contextmanager
    def running[P: Ending](self, start: Callable[[], P]) -> Iterator[P]:
        """A process that was started in another way, ended if the block ends before it.

        Raises StoppedError after `stop`.
        """
        with self._lock:
            if self._stopped:
                raise StoppedError
            process = start()
            self._running.add(process)
        try:
            yield process
        finally:
            process.end()
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
        """End what runs, and start nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.end()


def describe_status(status: int) -> str:
    """An exit status for people: the signal's name for a crash."""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"
