"""A function run in a child process, with a fault at its n-th system call that changes files, or
from there on; calls of all its threads count.

By ptrace(2), as debuggers do, so that neither Python nor the code under test knows of it; it stops
at the calls that could change files alone (seccomp(2)).
Linux on x86-64, where aotc runs.
"""

import ctypes
import errno
import mmap
import os
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

TRACEME, PEEKUSER, POKEUSER, CONT, SETOPTIONS = 0, 3, 6, 7, 0x4200
TRACECLONE, TRACESECCOMP, EXITKILL, WALL = 8, 0x80, 0x00100000, 0x40000000
EVENT_SECCOMP = 7
ORIG_RAX, RAX, RSI, RDX, RDI = 15 * 8, 10 * 8, 13 * 8, 12 * 8, 14 * 8
"""Offsets in struct user (sys/user.h)."""

O_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
UNREACHABLE = {1, 2}
"""Descriptors that are no files of ours: stdout and stderr."""

OPENAT = 257
CALLS = {
    1: "write", 18: "pwrite64", 20: "writev", 40: "sendfile", 326: "copy_file_range",
    74: "fsync", 75: "fdatasync", 76: "truncate", 77: "ftruncate", 285: "fallocate",
    82: "rename", 264: "renameat", 316: "renameat2", 86: "link", 265: "linkat",
    87: "unlink", 263: "unlinkat", 84: "rmdir", 83: "mkdir", 258: "mkdirat",
    88: "symlink", 266: "symlinkat", 2: "open", OPENAT: "openat",
    90: "chmod", 91: "fchmod", 268: "fchmodat", 93: "fchown", 73: "flock",
}  # fmt: skip
"""Of x86-64 (asm/unistd_64.h)."""

NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
LOAD_NUMBER, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
"""Instructions of a filter (bpf(4)): the call's number is the first word of what it is given."""
TRACE, ALLOW = 0x7FF00000, 0x7FFF0000

GROWING = {
    *("write", "pwrite64", "writev", "copy_file_range", "fsync", "openat", "mkdir", "link"),
    *("linkat", "rename"),
}
"""Calls that a full disk refuses."""

UNCHANGING = {"fsync", "fdatasync", "flock"}
"""Calls that a read-only file system serves."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class Fault(Enum):
    """Fault in place of the n-th call, or right before it.

    READ_ONLY: from there on, as where the system remounts a failing disk; from call 0 on, as in a
    place that was read-only before.
    """

    KILL = "kill -9"
    INTERRUPT = "Ctrl-C"
    FULL = "disk full"
    READ_ONLY = "read-only"


class Ended(NamedTuple):
    """End of the child.

    call: the one that was hit, or "" if it made fewer.  code: its exit code, or minus the signal.
    said: the code of its only finding.  calls: all that it made.
    """

    call: str
    code: int
    said: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Thread:
    """One of the child's, that stands still."""

    number: int

    def peek(self, register: int) -> int:
        ctypes.set_errno(0)
        return int(_libc.ptrace(PEEKUSER, self.number, register, None))

    def poke(self, register: int, value: int) -> None:
        _libc.ptrace(POKEUSER, self.number, register, value)

    def go_on(self, number: int = 0) -> None:
        """Until its next stop, with a signal."""
        _libc.ptrace(CONT, self.number, None, number)


def run(operation: Callable[[], object], fault: Fault, at: int) -> Ended:
    """Run the operation in a fork of this process. at: which call is hit, from 0, of all threads in
    the order in which they make them.
    """
    # What the child says passes through shared memory: no call that could be hit.
    said = mmap.mmap(-1, mmap.PAGESIZE)
    pid = os.fork()
    if pid == 0:
        _be_traced(operation, said)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSTOPPED(status), "this system lets no process trace its children"
    _libc.ptrace(SETOPTIONS, pid, None, EXITKILL | TRACECLONE | TRACESECCOMP)
    hit = ""
    seen: list[str] = []
    _Thread(pid).go_on()
    while True:
        number, status = os.waitpid(-1, WALL)
        if not os.WIFSTOPPED(status):
            if number == pid:
                break
            continue
        thread, stop = _Thread(number), os.WSTOPSIG(status)
        if status >> 16 != EVENT_SECCOMP:
            # A new thread begins with a stop of its own; what the system tells of it is no signal.
            thread.go_on(0 if status >> 16 or stop == signal.SIGSTOP else stop)
            continue
        call = _changes_files(thread)
        if (fault is Fault.FULL and call not in GROWING) or (
            fault is Fault.READ_ONLY and call in UNCHANGING
        ):
            call = ""
        sticks = fault is Fault.READ_ONLY and 0 <= at < len(seen)
        if call and (len(seen) == at or sticks):
            hit = hit or call
            _hit(pid, thread, fault)
        else:
            thread.go_on()
        seen += [call] if call else []
    code = os.waitstatus_to_exitcode(status)
    return Ended(hit, code, said.readline().rstrip(b"\0").decode(), tuple(seen))


def _be_traced(operation: Callable[[], object], said: mmap.mmap) -> None:
    code = 70
    try:
        _libc.ptrace(TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        _stop_at_calls()
        code = _outcome(operation, said)
    finally:
        os._exit(code)


def _stop_at_calls() -> None:
    """Have this process stop before each call that could change files, and at no other."""
    each = [
        instruction
        for number in CALLS
        for instruction in ((IF_EQUAL, 0, 1, number), (RETURN, 0, 0, TRACE))
    ]
    code = [(LOAD_NUMBER, 0, 0, 0), *each, (RETURN, 0, 0, ALLOW)]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *i) for i in code))
    program = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(instructions))
    assert _libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert _libc.prctl(SET_SECCOMP, FILTER, program, 0, 0) == 0, "seccomp(2)"


def _outcome(operation: Callable[[], object], said: mmap.mmap) -> int:
    """0 for a result, the family's exit code for an error of ours, 130 for Ctrl-C, 1 for a bug."""
    from aotc_runtime.base.errors import AotcError

    try:
        operation()
    except AotcError as error:
        said.write(" ".join(finding.code for finding in error.findings).encode())
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except Exception:  # noqa: BLE001 - a fork must not return into its parent's code
        traceback.print_exc(file=sys.stderr)
        return 1
    return 0


def _changes_files(child: _Thread) -> str:
    """The name of the call that the thread is about to make, if it changes files."""
    number = child.peek(ORIG_RAX)
    name = CALLS.get(number, "")
    if number == OPENAT and not child.peek(RDX) & O_WRITING:
        return ""
    if name.startswith("write") and child.peek(RDI) in UNREACHABLE:
        return ""
    return name


def _hit(pid: int, thread: _Thread, fault: Fault) -> None:
    if fault is Fault.KILL:
        os.kill(pid, signal.SIGKILL)
        return
    if fault is Fault.INTERRUPT:
        os.kill(pid, signal.SIGINT)
    else:
        # No call is made; what it would have returned stands here already.
        thread.poke(ORIG_RAX, -1)
        thread.poke(RAX, -(errno.EROFS if fault is Fault.READ_ONLY else errno.ENOSPC))
    thread.go_on()
