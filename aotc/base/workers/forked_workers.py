"""Processes that a zygote forks for jobs: `aotc.base.workers.zygote` is what runs there.

A process of its own costs Python and the imports for each job; a fork of one that has imported them
costs next to nothing, and knows as little of other jobs.
"""

from __future__ import annotations

import atexit
import io
import os
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO

from aotc.base.child_processes import Child
from aotc.base.workers.zygote import BETWEEN, STATUS

KEPT_MAX = 4
"""Zygotes of one module: a build starts at most one for each environment that its jobs are given,
and what was imported takes 100 MiB or more of memory.
"""

INHERITED = (
    *(b"Umask:", b"Uid:", b"Gid:", b"Groups:", b"SigBlk:", b"SigIgn:", b"NoNewPrivs:"),
    *(b"Seccomp:", b"CapEff:", b"CapBnd:", b"Cpus_allowed:", b"Mems_allowed:"),
)
"""Lines of /proc/PID/status about what a process passes on (proc_pid_status(5))."""


class Forked:
    """A process that a zygote has forked; it is over when nothing of its group is left."""

    def __init__(
        self, zygote: Zygote, held: socket.socket, stdout: IO[str], stderr: IO[bytes]
    ) -> None:
        self.stdout = stdout
        self._zygote, self._held, self._stderr = zygote, held, stderr
        self._lock = threading.Lock()
        self._status: int | None = None

    def wait(self) -> int:
        """Wait for the process and those that it started to end; the exit status."""
        with self._lock:
            if self._status is None:
                with self._held:
                    status = self._held.recv(STATUS.size)
                self._status = STATUS.unpack(status)[0] if status else self._lost()
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
                        *(sys.executable, "-P", "-m", "aotc.base.workers.zygote"),
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
        request = os.fsencode(BETWEEN.join([str(folder), str(working)]))
        try:
            with theirs, suppress(OSError):  # it is over, which `wait` finds
                given = [write, stderr.fileno(), theirs.fileno()]
                socket.send_fds(self._control, [request], given)
        finally:
            os.close(write)
        stdout = os.fdopen(read, encoding="utf-8", errors="replace")
        return Forked(self, held, stdout, stderr)

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
    """The zygotes of a module, one for everything that its jobs are to inherit; each starts with
    the first job that needs it. Threads may share it.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._zygotes: dict[Hashable, Zygote] = {}
        self._process = os.getpid()

    def fork(
        self, folder: Path, working: Path, environment: Mapping[str, str], stderr: IO[bytes]
    ) -> Forked:
        """A process for the job in a folder; arguments as of `Zygote`."""
        return self._find(environment).fork(folder, working, stderr)

    def begin(self, environment: Mapping[str, str]) -> None:
        """Start what jobs with this environment are going to need."""
        self._find(environment)

    def end(self) -> None:
        """End all of them, and what they have forked."""
        for zygote in self.forget():
            zygote.end()

    def forget(self) -> list[Zygote]:
        """Start others for later jobs. Those of before, which are returned, end with their jobs
        when nobody has them any more.
        """
        if self._process != os.getpid():
            return []
        with self._lock:
            zygotes, self._zygotes = [*self._zygotes.values()], {}
        return zygotes

    def _find(self, environment: Mapping[str, str]) -> Zygote:
        if self._process != os.getpid():
            # This is a fork of the process that those belong to.
            self.__init__(self._module)  # type: ignore[misc]
        which = (frozenset(environment.items()), _inherited())
        with self._lock:
            zygote = self._zygotes.pop(which, None)
            if zygote is None or zygote.is_over:
                zygote = Zygote(self._module, environment)
            self._zygotes[which] = zygote
            # One that still has jobs lives as long as these.
            for oldest in [*self._zygotes][:-KEPT_MAX]:
                del self._zygotes[oldest]
        return zygote


_kept: dict[str, Zygotes] = {}


def kept(module: str) -> Zygotes:
    """The zygotes of a module that builds share which this process runs one after the other. They
    end with this process.
    """
    return _kept.setdefault(module, Zygotes(module))


def renew() -> None:
    """Have whoever asks from now on get processes that are not forked from those of before."""
    for zygotes in _kept.values():
        zygotes.forget()


@atexit.register
def _end() -> None:
    for zygotes in _kept.values():
        zygotes.end()


def _inherited() -> Hashable:
    """What else a process inherits of the one that starts it, and what it imports: limits, the
    processors that it may use, signals that it ignores, its group of resources; when packages were
    last installed or removed.
    """
    found = [Path(f"/proc/thread-self/{name}").read_bytes() for name in ("limits", "cgroup")]
    status = Path("/proc/thread-self/status").read_bytes().splitlines()
    found += [line for line in status if line.startswith(INHERITED)]
    installed = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    return (*found, os.nice(0), *(path.stat().st_mtime_ns for path in sorted(installed)))
