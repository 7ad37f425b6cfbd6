"""Processes that a zygote forks for jobs: `aotc.workers.zygote` is what runs there.

A process of its own costs Python and the imports for each job; a fork of one that has imported them
costs next to nothing, and knows as little of other jobs.
"""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO

from aotc.processes import Child
from aotc.workers.zygote import BETWEEN, STATUS


class Forked:
    """A process that a zygote has forked; it is over when nothing of its group is left."""

    def __init__(self, zygote: Zygote, held: socket.socket, stdout: IO[str], stderr: IO[bytes]):
        self.stdout = stdout
        self._zygote, self._held, self._stderr = zygote, held, stderr
        self._lock = threading.Lock()
        self._status: int | None = None

    def wait(self) -> int:
        """Wait for the process and those that it started to end; the exit status."""
        with self._lock:
            if self._status is None:
                with self._held:
                    told = self._held.recv(STATUS.size)
                self._status = STATUS.unpack(told)[0] if told else self._lost()
        return self._status

    def end(self) -> None:
        """Begin to end all of it, and do not wait for that."""
        with suppress(OSError):  # it is over
            self._held.shutdown(socket.SHUT_WR)

    def _lost(self) -> int:
        """The status of the zygote, which took its children with it."""
        status, said = self._zygote.end()
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.write(said)
        return status


class Zygote:
    """The running zygote of a module. environment: of it and of all that it forks."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        printed = self._printed = io.FileIO(os.memfd_create("printed"), "w+")
        started: Future[Child] = Future()

        def start() -> Child:  # which the thread keeps: without `self`, it keeps nobody else
            with theirs:
                return Child(
                    [
                        *(sys.executable, "-P", "-m", "aotc.workers.zygote"),
                        *(str(theirs.fileno()), module),
                    ],
                    env=dict(environment),
                    cwd="/",  # where nobody else can put files
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=printed,
                    pass_fds=[theirs.fileno()],
                )

        threading.Thread(
            target=_start_and_stay, args=(start, started), daemon=True, name="aotc-zygote"
        ).start()
        self._process = started.result()

    @property
    def is_over(self) -> bool:
        """Whether it can fork nothing any more."""
        return self._process.poll() is not None

    def fork(self, folder: Path, working: Path, stderr: IO[bytes]) -> Forked:
        """A process for the job in a folder. working: where it runs.  stderr: the file for it."""
        held, theirs = socket.socketpair()
        read, write = os.pipe()
        request = os.fsencode(f"{folder}{BETWEEN}{working}")
        try:
            with theirs, suppress(OSError):  # it is over, which `wait` finds
                given = [write, stderr.fileno(), theirs.fileno()]
                socket.send_fds(self._control, [request], given)
        finally:
            os.close(write)
        return Forked(self, held, os.fdopen(read, encoding="utf-8", errors="replace"), stderr)

    def end(self) -> tuple[int, bytes]:
        """End it and all that it has forked: its status, and what it printed."""
        self._control.close()
        status = self._process.wait()
        return status, os.pread(self._printed.fileno(), self._printed.seek(0, os.SEEK_END), 0)


def _start_and_stay(start: Callable[[], Child], started: Future[Child]) -> None:
    """A process ends with the thread that has started it, which therefore waits for it."""
    try:
        process = start()
    except OSError as error:
        started.set_exception(error)
        return
    started.set_result(process)
    process.wait()


class Zygotes:
    """The zygotes of a module, one for each environment that its jobs are given; each starts with
    the first job that needs it. Threads may share it.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._zygotes: dict[frozenset[tuple[str, str]], Zygote] = {}

    def fork(
        self, folder: Path, working: Path, environment: Mapping[str, str], stderr: IO[bytes]
    ) -> Forked:
        """A process for the job in a folder; arguments as of `Zygote`."""
        which = frozenset(environment.items())
        with self._lock:
            zygote = self._zygotes.get(which)
            if zygote is None or zygote.is_over:
                zygote = self._zygotes[which] = Zygote(self._module, environment)
        return zygote.fork(folder, working, stderr)

    def end(self) -> None:
        """End all of them, and what they have forked."""
        with self._lock:
            zygotes, self._zygotes = [*self._zygotes.values()], {}
        for zygote in zygotes:
            zygote.end()
