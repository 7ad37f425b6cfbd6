"""Processes that a zygote forks for jobs, and that run `aotc.base.workers.zygote`.

A separate process pays for Python and its imports in each job; a fork of a process that has
imported them costs almost nothing, and shares no state with other jobs.
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
"""Zygotes of one module: a build starts at most one for each environment of its jobs, and the
imported modules take 100 MiB or more of memory.
"""

INHERITED = (
    *(b"Umask:", b"Uid:", b"Gid:", b"Groups:", b"SigBlk:", b"SigIgn:", b"NoNewPrivs:"),
    *(b"Seccomp:", b"CapEff:", b"CapBnd:", b"Cpus_allowed:", b"Mems_allowed:"),
)
"""Lines of /proc/PID/status that a child process inherits (proc_pid_status(5))."""


class Forked:
    """A process that a zygote has forked; it has ended when no process of its group is left."""

    def __init__(
        self, zygote: Zygote, held: socket.socket, stdout: IO[str], stderr: IO[bytes]
    ) -> None:
        self.stdout = stdout
        self._zygote, self._held, self._stderr = zygote, held, stderr
        self._lock = threading.Lock()
        self._status: int | None = None

    def wait(self) -> int:
        """Wait for the whole group to end, and return the exit status."""
        with self._lock:
            if self._status is None:
                with self._held:
                    status = self._held.recv(STATUS.size)
                self._status = STATUS.unpack(status)[0] if status else self._lost()
        return self._status

    def end(self) -> None:
        """Kill the group without waiting for its end."""
        with suppress(OSError):  # it is over
            self._held.shutdown(socket.SHUT_WR)

    def _lost(self) -> int:
        """Return the status of the zygote, which took its children with it."""
        status, said = self._zygote.end()
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.write(said)
        return status


class Zygote:
    """The running zygote of a module; its forks inherit its environment."""

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
                    cwd="/",  # a folder that only this user can write to
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
        """Return whether it has ended and can fork no more."""
        return self._process.poll() is not None

    def fork(self, folder: Path, working: Path, stderr: IO[bytes]) -> Forked:
        """Fork a process for the job in a folder, running in `working`."""
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
        """End it and all its forks; return its status and output."""
        self._control.close()
        status = self._process.wait()
        return status, os.pread(self._printed.fileno(), self._printed.seek(0, os.SEEK_END), 0)


def _start_and_stay(start: Callable[[], Child], started: Future[Child]) -> None:
    """Start a process and wait: it ends with the thread that started it."""
    try:
        process = start()
    except OSError as error:
        started.set_exception(error)
        return
    started.set_result(process)
    process.wait()


class Zygotes:
    """The zygotes of a module, one for each set of inherited attributes.

    Each starts with the first job that needs it. Threads may share the object.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._zygotes: dict[Hashable, Zygote] = {}
        self._process = os.getpid()

    def end(self) -> None:
        """End all zygotes and their forks."""
        for zygote in self.forget():
            zygote.end()

    def forget(self) -> list[Zygote]:
        """Start new zygotes for later jobs, and return the old ones.

        The old ones end with their jobs, once they are no longer referenced.
        """
        if self._process != os.getpid():
            return []
        with self._lock:
            zygotes, self._zygotes = [*self._zygotes.values()], {}
        return zygotes

    def begin(self, environment: Mapping[str, str]) -> Zygote:
        """Return the zygote for jobs with this environment; start it if there is none."""
        if self._process != os.getpid():
            # This is a fork of the process that those belong to.
            self.__init__(self._module)  # type: ignore[misc]
        which = (frozenset(environment.items()), _inherited_state())
        with self._lock:
            zygote = self._zygotes.pop(which, None)
            if zygote is None or zygote.is_over:
                zygote = Zygote(self._module, environment)
            self._zygotes[which] = zygote
            # A zygote with running jobs lives as long as they do.
            for oldest in [*self._zygotes][:-KEPT_MAX]:
                del self._zygotes[oldest]
        return zygote


_kept: dict[str, Zygotes] = {}


def zygotes_of(module: str) -> Zygotes:
    """Return a module's zygotes, which successive builds of this process share until it ends."""
    return _kept.setdefault(module, Zygotes(module))


def renew() -> None:
    """Fork later jobs from new zygotes."""
    for zygotes in _kept.values():
        zygotes.forget()


@atexit.register
def _end() -> None:
    for zygotes in _kept.values():
        zygotes.end()


def _inherited_state() -> Hashable:
    """Return the other attributes that a process inherits, and the time of its packages.

    These are limits, allowed processors, ignored signals and the control group; packages count by
    the time of the last installation or removal.
    """
    found = [Path(f"/proc/thread-self/{name}").read_bytes() for name in ("limits", "cgroup")]
    status = Path("/proc/thread-self/status").read_bytes().splitlines()
    found += [line for line in status if line.startswith(INHERITED)]
    installed = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    times = [path.stat().st_mtime_ns for path in sorted(installed) if path.is_dir()]
    return (*found, os.nice(0), *times)
