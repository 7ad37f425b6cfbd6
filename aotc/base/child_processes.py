"""Child processes that end with the work they belong to, also when another thread stops it.

Each leads a process group of its own, and every process of that group ends with it.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol


class StoppedError(Exception):
    """`Processes.stop` was called, so that no process is started any more."""


class Child(subprocess.Popen[Any]):
    """A process that leads a group, and has ended when no process of the group is left."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        super().__init__(command, process_group=0, **options)
        self._over = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._clear, daemon=True, name="aotc-child").start()

    def poll(self) -> int | None:
        """Return the exit status once the whole group has ended; None until then."""
        return super().poll() if self._over.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the whole group to end, and return the exit status.

        Raises subprocess.TimeoutExpired if it did not end within `timeout` seconds.
        """
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return super().wait()

    def end(self) -> None:
        """Kill the process group without waiting for its end."""
        with self._lock:
            if not self._over.is_set():
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)

    def _clear(self) -> None:
        """Kill the rest of the group when its leader has ended.

        The leader is reaped after that, so that no other group can get its number meanwhile.
        """
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        try:
            self.end()
        finally:
            with self._lock:
                self._over.set()


class Ending(Protocol):
    """A process with all processes that it started."""

    @property
    def stdout(self) -> IO[Any] | None:
        """The stream that it prints to, if the parent reads it."""

    def wait(self) -> int:
        """Wait until it has ended, and return the exit status."""

    def end(self) -> None:
        """Kill all of it without waiting for its end."""


class Processes:
    """The running child processes of one piece of work; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Ending] = set()
        self._stopped = False

    @contextmanager
    def start(self, command: Sequence[str], **options: Any) -> Iterator[Child]:
        """Start a child process (`options` as for `subprocess.Popen`), ended with the block.

        Raises StoppedError if `stop` was called.
        """
        with self.running(lambda: Child(command, **options)) as process:
            yield process

    @contextmanager
    def running[P: Ending](self, start: Callable[[], P]) -> Iterator[P]:
        """Run what `start` starts, and end it with the block; raises StoppedError after `stop`."""
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
        """Run a command in a folder to its end; return its status and the lines it printed.

        Raises subprocess.TimeoutExpired after `seconds`, StoppedError after `stop`.
        """
        with self.start(
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
        """End all running processes, and start no more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.end()


def describe_status(status: int) -> str:
    """Return an exit status for messages, with the signal's name after a crash."""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"
