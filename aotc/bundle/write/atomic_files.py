"""Writing so that a crash at any moment leaves the old file or the new one, never half of one."""

import ctypes
import errno
import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from aotc.base.errors import refusal
from aotc.base.temporary_files import (
    PART,
    delay_signals,
    prefix_of,
    remove_abandoned,
    sync,
    temporary_file,
    temporary_folder,
)
from aotc_runtime.base.digest import chunks_of

OLD = ".old"
"""Suffix of a replaced folder's temporary name, where names cannot be exchanged."""

LAYOUT = "layout"
"""The name of a replaced folder within its temporary folder."""

MKSTEMP_BYTES = 8
"""What `tempfile` puts between prefix and suffix."""

ATTEMPTS = 100
"""How often to try to put a folder in place while other processes do the same."""

FILE_MODE, FOLDER_MODE = 0o644, 0o755
"""Modes of what did not exist before; what is replaced keeps its mode and, if possible, its owner.
"""


type Check = Callable[[Path], None]
"""Looks at what was written, under its temporary name, before it replaces anything."""

type Before = Callable[[], None]
"""Called when everything was written and checked, and nothing but the renaming is left."""


def no_check(written: Path) -> None:
    """Accept any file, as a `Check`."""


def nothing() -> None:
    """Do nothing, as a `Before`."""


def write_atomically(
    path: Path,
    chunks: Iterable[bytes | memoryview],
    check: Check = no_check,
    before: Before = nothing,
) -> int:
    """Write to a temporary name beside `path`, fsync and rename; return the number of bytes.

    `check` is called with the written file before it replaces anything. Raises UsageError
    (AOTC-E003) if the path cannot be written.
    """
    with as_write_error(path):
        with _write_beside(path, chunks, check) as (temporary, size), delay_signals():
            before()
            temporary.replace(path)
        sync(path.parent)
    return size


@contextmanager
def prepare_files(files: Mapping[Path, bytes]) -> Iterator[Before]:
    """Write files under temporary names; yield a function that renames all of them.

    As `Before` of a command's last result, it makes all exist or, if the disk is full, none. Raises
    UsageError (AOTC-E003) if a path cannot be written.
    """
    with ExitStack() as stack:
        written: list[tuple[Path, Path]] = []
        for path, data in files.items():
            # Also for removing it, where that fails.
            stack.enter_context(as_write_error(path))
            temporary, _ = stack.enter_context(_write_beside(path, [data]))
            written.append((temporary, path))

        def put_in_place() -> None:
            for temporary, path in written:
                with as_write_error(path):
                    temporary.replace(path)
                    sync(path.parent)

        yield put_in_place


@contextmanager
def as_write_error(path: Path) -> Iterator[None]:
    """Raise UsageError (AOTC-E003) for an error of the system in the block."""
    try:
        yield
    except OSError as error:
        raise refusal("AOTC-E003", str(path), error.strerror or str(error)) from error


@contextmanager
def _write_beside(
    path: Path, chunks: Iterable[bytes | memoryview], check: Check = no_check
) -> Iterator[tuple[Path, int]]:
    """Write a temporary file beside `path`; yield its path and size. Raises OSError."""
    with temporary_file(path) as (temporary, descriptor):
        size = sum(_write(descriptor, chunk) for chunk in chunks)
        os.fchmod(descriptor, _keep_owner(descriptor, path, FILE_MODE))
        check(temporary)
        os.fsync(descriptor)
        yield temporary, size


def _write(descriptor: int, data: bytes | memoryview) -> int:
    """Write all bytes to an open file, and return their number. Raises OSError."""
    size = 0
    for piece in chunks_of(data):
        left = memoryview(piece)
        while left:
            written = os.write(descriptor, left)
            left, size = left[written:], size + written
    return size


def write_folder_atomically(
    path: Path,
    members: Iterable[tuple[str, bytes | memoryview]],
    check: Check = no_check,
    before: Before = nothing,
) -> int:
    """Write a folder under a temporary name, fsync, and put it in place of the existing one.

    `check` is called with the written folder before it replaces anything; returns the number of
    bytes. Raises UsageError (AOTC-E003) if the path cannot be written.
    """
    with as_write_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(path.parent, prefix_of(path)) as temporary:
            temporary.chmod(FOLDER_MODE)
            size = 0
            written: list[Path] = []
            for name, data in members:
                file = temporary / name
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("wb", buffering=0) as stream:
                    size += _write(stream.fileno(), data)
                    kept = _keep_owner(stream.fileno(), path / name, FILE_MODE)
                    os.fchmod(stream.fileno(), kept)
                written.append(file)
            check(temporary)
            for file in written:
                sync(file)
            _keep_folders(temporary, path)
            with delay_signals():
                before()
                _put_in_place(temporary, path)
        sync(path.parent)
        tidy(path)
    return size


def _put_in_place(new: Path, path: Path) -> None:
    """Rename, or change places with what is there: another process may have just written it."""
    for _ in range(ATTEMPTS):
        try:
            if path.exists() or path.is_symlink():
                if not exchange(new, path):
                    _replace_in_two_steps(path, new)
            else:
                new.rename(path)
            return
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY):
                raise
            lost = error
    raise lost


def _keep_owner(descriptor: int, old: Path, default: int) -> int:
    """Give an open file the owner of the one it replaces; the mode that one has, or the default."""
    try:
        status = old.stat()
    except (FileNotFoundError, NotADirectoryError):
        return default
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        with suppress(PermissionError):  # only root may give files away
            os.fchown(descriptor, status.st_uid, status.st_gid)
    return stat.S_IMODE(status.st_mode) & 0o777


def _keep_folders(new: Path, old: Path) -> None:
    for parent, _, _ in os.walk(new, topdown=False):
        descriptor = os.open(parent, os.O_RDONLY)
        try:
            replaced = old / Path(parent).relative_to(new)
            os.fchmod(descriptor, _keep_owner(descriptor, replaced, FOLDER_MODE))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _replace_in_two_steps(path: Path, new: Path) -> None:
    """Rename both, where names cannot be exchanged; a kill in between leaves the old one aside."""
    with temporary_folder(path.parent, prefix_of(path), OLD) as old, delay_signals():
        path.rename(old / LAYOUT)
        try:
            new.rename(path)
        except OSError:
            (old / LAYOUT).rename(path)
            raise


def tidy(path: Path) -> None:
    """Remove what writers of this result left when they were killed; put back what they moved."""
    if not os.path.lexists(path):
        for old in path.parent.glob(f"{glob.escape(prefix_of(path))}*{OLD}/{LAYOUT}"):
            with suppress(OSError):
                old.rename(path)
    for suffix in (PART, OLD):
        remove_abandoned(path.parent, prefix_of(path), suffix)


def require_short_name(path: Path) -> None:
    """Raise OSError if no temporary name for this result fits the file system."""
    longest = max(len(PART), len(OLD))
    needed = len(os.fsencode(prefix_of(path))) + MKSTEMP_BYTES + longest
    if needed > os.pathconf(path.parent if path.parent.is_dir() else "/", "PC_NAME_MAX"):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


AT_FDCWD = -100
RENAME_EXCHANGE = 2
"""linux/fcntl.h and linux/fs.h; renameat2(2)."""

UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
"""A kernel before 3.15, a sandbox, or a file system that cannot do it."""


def exchange(one: Path, other: Path) -> bool:
    """Swap what two existing names stand for; False where the system cannot. Raises OSError."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = (os.fsencode(one), os.fsencode(other))
    if renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], ctypes.c_uint(RENAME_EXCHANGE)) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
