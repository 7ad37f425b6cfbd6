"""Imports a worker's module once, and forks a process for each of its jobs.

Run as `python -m aotc.base.workers.zygote SOCKET MODULE`. The module has two functions: `prepare`
imports what its jobs need, and starts nothing that a fork would lose (threads, clients); `main`
does the job in the folder that the last argument names. As a command, the module prepares itself.

SOCKET is the number of a descriptor. Each message requests one process: the folder of the job, the
folder to run in, and three descriptors, for its stdout, its stderr and its end. The process's
status is sent to the last one; if the requester closes it, the process and its group are ended.
When the other end of SOCKET is closed, everything ends.
"""

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
from typing import NoReturn

REQUEST_BYTES = 2 * 4096 + 64
"""Two paths (PATH_MAX) and their separator."""

BETWEEN = "\0"

STATUS = struct.Struct("<i")
"""An exit status, as returned by `os.waitstatus_to_exitcode`."""

OURS = ("__main__", "aotc", "aotc_runtime")

_DESCRIPTORS = 3
_FAILED = 1
"""The exit status of Python after an exception."""


class Server:
    """Forks a process that runs `main` of a module for each request, until the requester ends."""

    def __init__(self, control: socket.socket, main: Callable[[], object], module: str) -> None:
        self._control, self._main, self._module = control, main, module
        self._imported = dict(_imported_files())
        self._running: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = os.pipe()

    def serve(self) -> None:
        """Serve requests until the requester ends, then end what still runs."""
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
                    if not self._running and self._imported != dict(_imported_files()):
                        self._import_again()
                    asked = self._begin()
                elif key.fileobj == self._woken:
                    with suppress(BlockingIOError):
                        os.read(self._woken, REQUEST_BYTES)
                elif key.data in self._running:
                    # The requester has ended, or has closed it to end the process.
                    self._selector.unregister(key.fileobj)
                    _kill_group(key.data)
            self._reap()
        for pid, held in [*self._running.items()]:
            _kill_group(pid)
            self._tell(pid, held)

    def _begin(self) -> bool:
        """Fork for one request; return False if the requester has ended."""
        message, given, _, _ = socket.recv_fds(self._control, REQUEST_BYTES, _DESCRIPTORS)
        if not message:
            return False
        folder, working = os.fsdecode(message).split(BETWEEN)
        out, said, held = given
        pid = os.fork()
        if pid == 0:
            self._become(folder, working, out, said, held)
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)  # as the child does, whoever comes first
        os.close(out)
        os.close(said)
        self._running[pid] = socket.socket(fileno=held)
        self._selector.register(self._running[pid], selectors.EVENT_READ, pid)
        return True

    def _import_again(self) -> NoReturn:
        """Become a zygote with fresh imports; the request waits meanwhile."""
        os.ftruncate(2, 0)  # what preparing has printed before
        os.lseek(2, 0, os.SEEK_SET)
        os.set_inheritable(self._control.fileno(), True)
        words = ("-P", "-m", "aotc.base.workers.zygote", str(self._control.fileno()), self._module)
        os.execv(sys.executable, [sys.executable, *words])

    def _become(self, folder: str, working: str, out: int, said: int, held: int) -> NoReturn:
        """Become the process of a job, and end with it.

        `folder` is that of the job, and `working` the one to run in; `out`, `said` and `held` are
        descriptors for its stdout, its stderr and its end.
        """
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
            _forward(said)
            for given, number in ((out, 1), (said, 2)):
                os.dup2(given, number)
                os.close(given)
            os.close(held)
            os.chdir(working)
            sys.argv = [sys.argv[0], folder]
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
        """Report the status of each process that has ended, and end the rest of its group."""
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


def _imported_files() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the file of each imported module with its time, size and inode, to detect changes.

    aotc's own modules are left out: the requester has imported them, too.
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
    """Copy the output of `prepare` to a job's stderr, as if the job had prepared by itself."""
    printed = os.pread(2, os.fstat(2).st_size, 0)
    while printed:
        printed = printed[os.write(said, printed) :]


def _status_of(ended: SystemExit) -> int:
    """Return the status that an interpreter ends with, which prints codes that are no numbers."""
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
