"""`python -m aotc.base.workers.zygote SOCKET MODULE`: import a worker's module once, and fork a
process for each of its jobs.

The module has two functions. `prepare` imports what its jobs need, and starts nothing that a fork
would lose: no threads, no clients. `main` does the job in the folder that the last argument names.
As a process of its own the module prepares by itself.

SOCKET is the number of a descriptor. Each message is a request for one process: the folder of the
job, the folder to run in, and three descriptors, for its stdout, its stderr and its end. There the
process' status is sent; if whoever asked for the process closes it, the process and its group are
ended. When nobody holds the other end of SOCKET any more, everything ends.
"""

from __future__ import annotations

import gc
import importlib
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, NoReturn

REQUEST_BYTES = 2 * 4096 + 64
"""Two paths (PATH_MAX), and what is between them."""

BETWEEN = "\0"

STATUS = struct.Struct("<i")
"""An exit status, as `os.waitstatus_to_exitcode` has it."""

OURS = ("__main__", "aotc", "aotc_runtime")

_DESCRIPTORS = 3
_FAILED = 1
"""With which Python ends after an exception."""


class Request(NamedTuple):
    """For one process. folder: of the job.  working: to run in.  out, said, held: descriptors for
    its stdout, its stderr and its end.
    """

    folder: str
    working: str
    out: int
    said: int
    held: int


class Server:
    """Forks a process for each request, until whoever asks has gone. main: of a module, does a job.
    module: its name.
    """

    def __init__(self, control: socket.socket, main: Callable[[], object], module: str) -> None:
        self._control, self._main, self._module = control, main, module
        self._imported = dict(_imported())
        self._running: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = os.pipe()

    def serve(self) -> None:
        """Answer requests until there can be no more, and end what still runs then."""
        for descriptor in (self._woken, self._wakes):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for waited in (self._control, self._woken):
            self._selector.register(waited, selectors.EVENT_READ)
        asked = True
        while asked:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    if not self._running and self._imported != dict(_imported()):
                        self._import_again()
                    asked = self._begin()
                elif key.fileobj == self._woken:
                    with suppress(BlockingIOError):
                        os.read(self._woken, REQUEST_BYTES)
                elif key.data in self._running:
                    # Nobody waits for it any more, or somebody wants it to end.
                    self._selector.unregister(key.fileobj)
                    _kill_group(key.data)
            self._reap()
        for pid, held in [*self._running.items()]:
            _kill_group(pid)
            self._tell(pid, held)

    def _begin(self) -> bool:
        """Fork for a request; False if nobody is left who could ask."""
        message, given, _, _ = socket.recv_fds(self._control, REQUEST_BYTES, _DESCRIPTORS)
        if not message:
            return False
        folder, working = os.fsdecode(message).split(BETWEEN)
        request = Request(folder, working, *given)
        pid = os.fork()
        if pid == 0:
            self._become(request)
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)  # as the child does, whoever comes first
        os.close(request.out)
        os.close(request.said)
        self._running[pid] = socket.socket(fileno=request.held)
        self._selector.register(self._running[pid], selectors.EVENT_READ, pid)
        return True

    def _import_again(self) -> NoReturn:
        """Become a zygote that imports everything as it is now; the request waits meanwhile."""
        os.ftruncate(2, 0)  # what preparing has printed before
        os.lseek(2, 0, os.SEEK_SET)
        os.set_inheritable(self._control.fileno(), True)
        words = ("-P", "-m", "aotc.base.workers.zygote", str(self._control.fileno()), self._module)
        os.execv(sys.executable, [sys.executable, *words])

    def _become(self, request: Request) -> NoReturn:
        """Be the process of a job from here on, and end."""
        status = _FAILED
        try:
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for mine in (self._control, *self._running.values()):
                mine.close()
            os.close(self._woken)
            os.close(self._wakes)
            _forward(request.said)
            for given, number in ((request.out, 1), (request.said, 2)):
                os.dup2(given, number)
                os.close(given)
            os.close(request.held)
            os.chdir(request.working)
            sys.argv = [sys.argv[0], request.folder]
            self._main()
            status = 0
        except SystemExit as ended:
            status = _status_of(ended)
        except BaseException:  # noqa: BLE001 - what an interpreter does at its end
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    def _reap(self) -> None:
        """Tell the status of each process that has ended, and end what it has left in its group."""
        for pid, held in [*self._running.items()]:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                continue
            _kill_group(pid)  # before its number can be another's
            self._tell(pid, held)

    def _tell(self, pid: int, held: socket.socket) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        del self._running[pid]
        with suppress(KeyError):
            self._selector.unregister(held)
        with held, suppress(OSError):
            held.send(STATUS.pack(status))


def _imported() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the file of each imported module, and what tells that it is another by now. Ours stay:
    whoever asks has imported them, too.
    """
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and name.partition(".")[0] not in OURS:
            with suppress(OSError):
                status = os.stat(file)  # noqa: PTH116 - of a thousand files
                yield file, (status.st_mtime_ns, status.st_size, status.st_ino)


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _forward(said: int) -> None:
    """Write what preparing has printed where a job prints, as if it had prepared by itself."""
    printed = os.pread(2, os.fstat(2).st_size, 0)
    while printed:
        printed = printed[os.write(said, printed) :]


def _status_of(ended: SystemExit) -> int:
    """The status that an interpreter ends with, which prints other codes than numbers."""
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)
    return _FAILED


def main() -> None:
    """Prepare, and serve."""
    control, name = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    module = importlib.import_module(name)
    work: Callable[[], object] = module.main
    try:
        module.prepare()
    except Exception as error:  # noqa: BLE001 - each job ends by it
        # Some packages cannot be imported again after they have failed.
        failure = error

        def work() -> NoReturn:
            raise failure

    from aotc.base.workers.worker_child import end_with_parent

    end_with_parent()
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # so that no collection in a child copies pages of all that was imported
    Server(control, work, name).serve()


if __name__ == "__main__":
    main()
