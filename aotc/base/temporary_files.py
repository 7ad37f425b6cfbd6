"""Temporary files that are removed even if the process is killed.

The process that creates a temporary file or folder locks it (flock) for as long as it lives. One
without a lock was abandoned, and the next process that writes to the same path removes it.
"""

import errno
import fcntl
import os
import re
import resource
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from aotc.base.constants import FULL, NO_ROOM

PART = ".part"
"""The end of every temporary name beside a result; `mkstemp` puts eight letters before it."""

PROBE_BYTES = 4096
"""A block of most file systems."""

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
"""The last raises one of the others again, after an import (`aotc.cli.stop_signals`)."""

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of a file system without hard links, such as FAT."""


def prefix_of(path: Path) -> str:
    """Return the start of temporary names for a result."""
    return f".{path.name}."


@contextmanager
def delay_signals() -> Iterator[None]:
    """Delay signals that stop a command until the end, for steps that must not be split.

    Python runs handlers in the main thread only, so that other threads need nothing. A signal mask
    is not enough: a signal to the process then goes to a thread without one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    before = {number: signal.getsignal(number) for number in _STOPS}
    for number in _STOPS:
        signal.signal(number, lambda number, frame: noted.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if noted:
            signal.raise_signal(noted[0])


@contextmanager
def temporary_file(path: Path) -> Iterator[tuple[Path, int]]:
    """Create a file beside `path`, and yield it with its descriptor; removed unless renamed.

    Raises OSError if it cannot be created.
    """
    remove_abandoned(path.parent, prefix_of(path))

    def make() -> tuple[str, int]:
        descriptor, name = tempfile.mkstemp(prefix=prefix_of(path), suffix=PART, dir=path.parent)
        return name, descriptor

    with _make_locked(make) as made:
        yield made


@contextmanager
def temporary_folder(parent: Path, prefix: str, suffix: str = PART) -> Iterator[Path]:
    """Create a folder that is removed with its contents at the end, unless it was renamed.

    Raises OSError if it cannot be created.
    """
    remove_abandoned(parent, prefix, suffix)

    def make() -> tuple[str, int]:
        while True:
            name = tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=parent)
            try:
                return name, os.open(name, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue  # another process removed it as abandoned before it was locked
            except OSError:  # a mask of modes that forbids the owner to read what it makes
                Path(name).rmdir()
                raise

    with _make_locked(make) as (name, _):
        yield name


@contextmanager
def _make_locked(make: Callable[[], tuple[str, int]]) -> Iterator[tuple[Path, int]]:
    """Create something locked, and remove it at the end if it still exists.

    No signal arrives between its creation and the registration of its removal.
    """
    with ExitStack() as stack:
        with delay_signals():
            name, descriptor = make()
            while not _lock(descriptor, name):
                os.close(descriptor)
                name, descriptor = make()
            stack.callback(os.close, descriptor)
            stack.callback(_remove, Path(name))
        yield Path(name), descriptor


def _remove(path: Path) -> None:
    with delay_signals():
        if path.is_dir():
            remove_folder(path)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def lock_path(path: Path) -> Iterator[None]:
    """Wait until no other process is between reading and replacing this path; raises OSError."""
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if _lock(descriptor, os.fspath(path)):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


def create_all_or_none(*files: tuple[Path, bytes, int]) -> None:
    """Create all the files completely, or none of them; never overwrite a file.

    `files` are paths, contents and modes. Raises FileExistsError if one exists, or OSError.
    """
    with ExitStack() as stack:
        written = [(stack.enter_context(_write_temporary(*file)), file[0]) for file in files]
        created: list[Path] = []
        with delay_signals():
            try:
                for temporary, path in written:
                    _link_new(temporary, path)
                    created.append(path)
                for path in created:
                    sync(path.parent)
            except OSError:
                for path in created:
                    path.unlink()
                raise


@contextmanager
def _write_temporary(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    with temporary_file(path) as (temporary, descriptor):
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        yield temporary


def _link_new(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        temporary.rename(path)


def hard_link(file: Path, name: Path) -> bool:
    """Give a file another name; return whether it has it.

    Raises FileExistsError and FileNotFoundError as `os.link`, and OSError if the disk is full,
    since a copy would not fit either.
    """
    try:
        os.link(file, name, follow_symlinks=False)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:  # another file system, one without links, or one link too many
        if error.errno in FULL:
            raise
        return False
    return True


def remove_abandoned(folder: Path, prefix: str, suffix: str = PART) -> None:
    """Remove files with such names that killed processes of this user left."""
    pattern = re.compile(rf"{re.escape(prefix)}[a-z0-9_]{{8}}{re.escape(suffix)}")
    try:
        found = [path for path in folder.iterdir() if pattern.fullmatch(path.name)]
    except OSError:
        return
    for path in found:
        # Whatever goes wrong here, the result that is to be written does not depend on it.
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(path)
            finally:
                os.close(descriptor)


def _lock(descriptor: int, name: str) -> bool:
    """Lock an open file or folder; return False if its name no longer stands for it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return True  # a file system without locks: nothing is removed there as abandoned
    try:
        return os.path.samestat(Path(name).stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def remove_folder(folder: Path) -> None:
    """Remove a folder, even if its mode forbids to empty it."""
    for parent, _, _ in os.walk(folder):
        with suppress(OSError):
            descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                os.fchmod(descriptor, 0o700)
            finally:
                os.close(descriptor)
    shutil.rmtree(folder, ignore_errors=True)


def require_room(folder: Path, status: int) -> None:
    """Raise OSError if a child that ended with this status ran out of disk space.

    It did if its status says so, the disk is full now, or a file has the largest allowed size.
    """
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if largest != resource.RLIM_INFINITY:
        for path in folder.rglob("*"):
            if path.is_file() and path.stat().st_size >= largest:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(bytes(PROBE_BYTES))
        probe.flush()
    if status == NO_ROOM:  # there is room again, which others have given back meanwhile
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk. Raises OSError if it cannot be flushed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
