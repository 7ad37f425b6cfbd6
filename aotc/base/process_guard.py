"""`python process_guard.py PIPE SECONDS COMMAND…`: run a command, and end with it everything that
it has started, in whatever group or session that is by then.

The guard is the parent of the command, and becomes that of what lost its own (prctl(2),
PR_SET_CHILD_SUBREAPER), so that all of it stays below the guard. PIPE is the number of a descriptor
to read from: when nobody holds the other end any more, everything ends. The guard ends as the
command did. It runs without packages, ours included, so that it costs next to nothing. A zygote
has it in a process that it forks, for one that is forked from there (`aotc.base.workers.zygote`).
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

type Handler = Callable[[int, FrameType | None], Any] | int | None
"""What `signal.signal` takes and returns."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

TICK_SECONDS = 0.01

KILLING_SECONDS = 5.0
"""From SIGKILL until what is left is given up: another user's, or what waits for a device."""

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NOT_FOUND = 127
READ_BYTES = 4096


def descendants() -> list[int]:
    """Processes below this one (proc(5), `/proc/PID/stat`)."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name of a program stands in brackets, and may hold any.
            parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[1]
        except OSError:
            continue
        children.setdefault(int(parent), []).append(int(folder.name))
    found = [os.getpid()]
    for number in found:
        found += children.get(number, ())
    return found[1:]


def end(seconds: float, reap: Callable[[], bool]) -> None:
    """SIGTERM to everything below this process, and to what is left after so many seconds SIGKILL.
    reap: asks about children that have ended; whether there are others.
    """
    begun = time.monotonic()
    _tell(descendants(), signal.SIGTERM)
    # Whatever is left is a child of this process, or below one. What looks like one that has ended
    # may have threads that have not.
    while reap():
        late = time.monotonic() - begun - seconds
        if late > KILLING_SECONDS:
            return
        if late >= 0:
            _tell(descendants(), signal.SIGKILL)
        time.sleep(TICK_SECONDS)


def _tell(processes: Sequence[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def guard(
    pipe: int, seconds: float, become: Callable[[Mapping[signal.Signals, Handler]], object]
) -> int:
    """Run a process until it, the pipe or the parent of this one ends, and then end the rest; the
    status it ended with, and 0 if it is still there, whatever was done.

    become: makes a process that was forked for it the one to guard, and does not return. It is
    given the handlers of signals that the guard has changed.
    """
    import ctypes

    os.set_inheritable(pipe, False)
    changed: dict[signal.Signals, Handler] = {n: signal.signal(n, signal.SIG_IGN) for n in STOPS}
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    changed[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    above = os.getppid()
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGCHLD)  # which wakes it
    guarding, leader = os.getpid(), os.fork()
    if leader == 0:
        # Without the guard nobody would end what it starts.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == guarding:
            signal.set_wakeup_fd(-1)
            for mine in (pipe, woken, wakes):
                os.close(mine)
            os.setpgid(0, 0)
            become(changed)
        os._exit(NOT_FOUND)
    ended: dict[int, int] = {}

    def reap() -> bool:
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == leader:
                    ended.update([found])
            return True
        return False

    while leader not in ended and os.getppid() == above:
        ready = select.select([woken, pipe], [], [])[0]
        if pipe in ready:
            break
        os.read(woken, READ_BYTES)
        reap()
    end(seconds, reap)
    return ended.get(leader, 0)


def _become(command: list[str], changed: Mapping[signal.Signals, Handler]) -> None:
    """Be the command from now on, with the signals and the variables that this process was started
    with. Returns if there is no such command.
    """
    ignored = [number for number in STOPS if changed[number] == signal.SIG_IGN]
    # Python ignores the last two, which `subprocess` has undone for it.
    for number in (*STOPS, signal.SIGPIPE, signal.SIGXFSZ):
        if number not in ignored:
            signal.signal(number, signal.SIG_DFL)
    # Python may have set one for the locale, which is not to be seen.
    entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    variables = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
    try:
        os.execvpe(command[0], command, variables)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.stderr.flush()


def leave(status: int) -> NoReturn:
    """End as a process with this status did (wait(2))."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one was enough
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


if __name__ == "__main__":
    leave(guard(int(sys.argv[1]), float(sys.argv[2]), partial(_become, sys.argv[3:])))
