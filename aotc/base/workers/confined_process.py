"""Limits for a process that parses an untrusted model file.

It has no network, and no access to the keys of the process that started it.

Each measure is taken where the system has it; the process reports those that failed. They are
limits on memory and time (setrlimit(2)), files that cannot be read and no access to the memory of
other processes (landlock(7), or a mount namespace), and rejected system calls (seccomp(2)):
sockets, and calls that reach into other processes. None needs privileges; children inherit them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from aotc.base.byte_sizes import bytes_of
from aotc.base.errors import refusal
from aotc.base.workers.worker_child import process_figure
from aotc_runtime.base.errors import AotcError

MEMORY_VARIABLE, SECONDS_VARIABLE = "AOTC_MODEL_MEMORY", "AOTC_MODEL_SECONDS"
SECONDS = 3600
"""Time limit for the reference of model files, unless the variable sets another."""

THREAD_BYTES = 256 * 2**20
"""Address space for each processor: stacks and arenas, most of which is never used."""


_secrets: set[str] = set()


def keep_secret(*paths: str | os.PathLike[str]) -> None:
    """Hide files from the processes that this one starts for model files."""
    _secrets.update(str(Path(path).absolute()) for path in paths)


def secrets() -> tuple[str, ...]:
    """Return the files to hide."""
    return tuple(sorted(_secrets))


class ProcessLimits(Struct, frozen=True):
    """The resources that a process may use.

    `memory_bytes` is on top of what it has at its start, and of `mapped_bytes`, the files it maps.
    `seconds` limits the clock and each processor's time; `folder` is for temporary files.
    """

    memory_bytes: int
    mapped_bytes: int
    seconds: int
    folder: str

    @classmethod
    def from_env(cls, mapped_bytes: int, folder: str) -> ProcessLimits:
        """Return the limits of the environment variables, or this machine's memory and an hour.

        Raises UsageError (AOTC-E001).
        """
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        seconds = SECONDS
        if text := os.environ.get(MEMORY_VARIABLE, ""):
            found = bytes_of(int(text) if text.isdigit() else text)
            if found is None:
                raise _unusable(MEMORY_VARIABLE, text, "a number of bytes, such as 16 GiB")
            memory = found
        if text := os.environ.get(SECONDS_VARIABLE, ""):
            if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
                raise _unusable(SECONDS_VARIABLE, text, "a number of seconds")
            seconds = int(text)
        return cls(memory, mapped_bytes, seconds, folder)


def _unusable(variable: str, found: str, expected: str) -> AotcError:
    cause = "environment-variable-is-invalid"
    return refusal("AOTC-E001", variable, found, cause=cause, expected=expected)


def begin(limits: ProcessLimits) -> tuple[str, ...]:
    """Take all measures in this process, before it starts threads; return one line for each.

    A line gives the effect of its measure, or why it failed.
    """
    return _apply({"limits": lambda: _limit(limits)}) + shut_off(limits.folder)


def shut_off(folder: str) -> tuple[str, ...]:
    """Take all measures except those against too much memory and time, as `begin`.

    `folder` is where files may be written.
    """
    tempfile.tempdir = folder
    measures: dict[str, Callable[[], str]] = {
        "files": lambda: _hide(secrets(), folder),
        "network": _filter_calls,
        "privileges": _drop_privileges,
    }
    return _apply(measures)


def _apply(measures: Mapping[str, Callable[[], str]]) -> tuple[str, ...]:
    told = []
    for name, measure in measures.items():
        try:
            told.append(f"{name}: {measure()}")
        except OSError as error:
            told.append(f"{name}: not kept away here ({error.strerror or error})")
    return tuple(told)


# Limits


def _limit(limits: ProcessLimits) -> str:
    processors = len(os.sched_getaffinity(0))
    seconds = limits.seconds * processors
    spent = resource.getrusage(resource.RUSAGE_SELF)
    at_most(resource.RLIMIT_CPU, int(spent.ru_utime + spent.ru_stime) + seconds, grace=5)
    at_most(resource.RLIMIT_CORE, 0)
    room = limits.memory_bytes + processors * THREAD_BYTES
    at_most(resource.RLIMIT_DATA, data_bytes() + room)
    at_most(resource.RLIMIT_AS, process_figure("VmSize") * 1024 + room + 2 * limits.mapped_bytes)
    return f"{limits.memory_bytes / 2**30:.1f} GiB of memory, {limits.seconds} s"


def at_most(what: int, most: int, grace: int = 0) -> None:
    """Lower a limit of this process, never above its current one.

    `grace` is how far the hard limit (SIGKILL) is above the soft one, whose signal says why.
    """
    unlimited = resource.RLIM_INFINITY
    soft, hard = resource.getrlimit(what)
    highest = most + grace if hard == unlimited else min(hard, most + grace)
    lowest = most if soft == unlimited else min(soft, most)
    resource.setrlimit(what, (min(lowest, highest), highest))


def data_bytes() -> int:
    """Return the bytes of this process that RLIMIT_DATA counts."""
    return process_figure("VmData") * 1024


# Files

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_VERSION = 1
_WRITE_FILE, _READ_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 2, 1 << 13, 1 << 14
_CHANGES = _WRITE_FILE | 0b1_1111_1111 << 4
"""Writing to a file, and creating or removing one of any kind; in later versions of Landlock also
moving one to another folder (2), and truncating one (3).
"""
_SPECIAL = 1 << 6 | 0b1111 << 9
"""Creating devices, sockets, pipes and symbolic links. The process that reads the folder afterwards
may read the key: a link to that would have it put into the bundle, a pipe would make it wait.
"""
_DEVICES_FOLDER = "/dev"
_HARMLESS = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
"""Devices that may be read. Others are disks, whose bytes are those of every file, memory that
programs share, and terminals.
"""
_PATH_BENEATH = 1
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LIBC = ctypes.CDLL(None, use_errno=True)


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _hide(hidden: Iterable[str], folder: str) -> str:
    """Block the hidden files, changes outside of the folder, and other processes' memory."""
    paths = sorted({os.path.realpath(path) for path in hidden if os.path.lexists(path)})
    try:
        _landlock(paths, folder)
    except OSError as error:
        if not paths:
            raise
        try:
            _mounts(paths)
        except OSError:
            raise error from None
        return "no keys are read (a mount namespace)"
    return "no keys are read, nothing elsewhere is changed (Landlock)"


def _landlock(hidden: list[str], folder: str) -> None:
    """Allow changes in the folder, and reads of all files but the hidden ones and devices.

    Landlock has only rules that allow.
    """
    version = _check_result(_LIBC.syscall(_LANDLOCK_CREATE, None, 0, _VERSION))
    changes = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    attribute = struct.pack("=Q", changes | (_READ_FILE if hidden else 0))
    ruleset = _check_result(_LIBC.syscall(_LANDLOCK_CREATE, attribute, len(attribute), 0))
    allowed = [(path, _READ_FILE) for path in _others(hidden)]
    allowed += [(path, _READ_FILE) for path in _HARMLESS if hidden]
    allowed += [(folder, changes & ~_SPECIAL), (os.devnull, changes & (_WRITE_FILE | _TRUNCATE))]
    try:
        for path, rights in allowed:
            with suppress(OSError):  # gone meanwhile, or not ours to open
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    rule = struct.pack("=Qi", rights, descriptor)
                    _check_result(_LIBC.syscall(_LANDLOCK_ADD, ruleset, _PATH_BENEATH, rule, 0))
                finally:
                    os.close(descriptor)
        _no_new_privileges()
        _check_result(_LIBC.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def _others(hidden: list[str]) -> Iterator[str]:
    """Yield all files and folders, except devices, beside a hidden file or a parent of one."""
    above = {str(parent) for path in hidden for parent in Path(path).parents}
    for folder in sorted(above - {_DEVICES_FOLDER}):
        with suppress(OSError):
            for path in Path(folder).iterdir():
                # Rules follow links: one to a hidden file would allow it again.
                if os.path.realpath(path) not in {*hidden, *above, _DEVICES_FOLDER}:
                    yield str(path)


def _mounts(hidden: list[str]) -> None:
    """Mount the empty device over each file, for this process alone."""
    if _LIBC.unshare(_CLONE_NEWNS) < 0:
        user, group = os.geteuid(), os.getegid()
        _check_result(_LIBC.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
        Path("/proc/self/setgroups").write_text("deny", "ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "ascii")
    _check_result(_LIBC.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    for path in hidden:
        _check_result(_LIBC.mount(b"/dev/null", os.fsencode(path), None, _MS_BIND, None))


def _no_new_privileges() -> None:
    _check_result(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


_CAPSET, _CAPABILITY_VERSION = {"x86_64": 126, "aarch64": 91}, 0x20080522
_KEPT_CAPABILITIES = 0b1111
"""CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER: for root's own files."""


def _drop_privileges() -> str:
    """Keep only those of root's capabilities that concern files.

    CAP_PERFMON alone would show the variables of every process.
    """
    if platform.machine() not in _CAPSET:
        raise OSError(errno.ENOSYS, f"no number of capset on {platform.machine()}")
    _no_new_privileges()
    kept = process_figure("CapEff", 16) & _KEPT_CAPABILITIES
    data = struct.pack("=6I", kept, kept, 0, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _check_result(_LIBC.syscall(_CAPSET[platform.machine()], header, data))
    return "those of files"


# System calls

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The number of each machine in the system (AUDIT_ARCH)."""

_REJECTED = {
    "socket": (41, 198),
    "ptrace": (101, 117),
    "mount": (165, 40),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "pidfd_getfd": (438, 438),
}
"""The calls to reject, with their numbers on these machines."""

_X32 = 0x40000000
"""Calls of x86-64 from here on belong to another interface, which is not used here."""

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def _filter_calls() -> str:
    """Reject the system calls above with EPERM. Raises OSError if the system has no such filter."""
    if platform.machine() not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no list of system calls of {platform.machine()}")
    machine = _ARCHITECTURES[platform.machine()]
    column = [*_ARCHITECTURES].index(platform.machine())
    refused = _ERRNO | errno.EPERM
    # struct seccomp_data: the number at 0, the machine at 4.
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, refused)]
    program.append((_LOAD, 0, 0, 0))
    if platform.machine() == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, refused)]
    for number in sorted(numbers[column] for numbers in _REJECTED.values()):
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refused)]
    program.append((_RETURN, 0, 0, _ALLOW))
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    pointer = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    _no_new_privileges()
    _check_result(_LIBC.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, pointer, 0, 0))
    return "no sockets (seccomp)"
