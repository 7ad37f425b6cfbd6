"""The build cache in a local folder.

An entry is a file `ab/cdef…` named after its key. It begins with a SHA-256 over its key and data,
so that an entry which is damaged, cut short or under the wrong name is not used. Files are written
beside their place and renamed, so that a killed build leaves a whole one or none. A file's
modification time is when it was last used.
"""

import errno
import os
import re
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aotc.base.directory_owner import is_ours
from aotc.base.temporary_files import (
    PART,
    lock_path,
    remove_abandoned,
    remove_folder,
    temporary_file,
)
from aotc_runtime.base.digest import chunks_of, sha256_bytes

MAGIC = b"aotc-entry-1\n"
DIGEST_BYTES = 32
HEX = frozenset("0123456789abcdef")

INNER_MODE = 0o700

ENTRIES = "entries"

RECORDS = "records"
"""What the last build of each manifest and bundle name did, for `--explain`; small, and no part of
the size."""

RECORDS_KEPT = 200
RECORD_BYTES_MAX = 256 * 2**20
"""A record has some kilobytes for each task; one of hundreds of executables, some hundred kB."""

_ENTRY = re.compile(r"[0-9a-f]{64}\Z")
_UNFINISHED = re.compile(rf"(\.[0-9a-f]+\.).{{8}}{re.escape(PART)}\Z")


@dataclass(frozen=True, slots=True)
class Contents:
    """The number of entries in a folder, and the bytes of all of them together."""

    entries: int
    bytes: int


def inner_folders(folder: Path) -> Iterator[Path]:
    """Yield folders in which a store in this one keeps files; some may not be there."""
    yield folder / RECORDS
    yield folder / ENTRIES
    with suppress(FileNotFoundError, NotADirectoryError):
        yield from sorted((folder / ENTRIES).iterdir())


class LocalStore:
    """A folder of at most `limit` bytes, for several threads and several builds at once.

    Every build ends with `trim`, which removes the least recently used entries beyond it.
    `unwritable` is why an entry could not be written or removed; empty if all could.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._lock = threading.Lock()
        self._damaged: list[str] = []
        self.unwritable = ""

    def get(self, key: str) -> bytes | None:
        """Return the bytes under a key; None if there are none.

        A damaged entry is removed. One that is larger than the whole cache is not read.
        """
        path = self._path(key)
        try:
            start, data = _read(path, len(MAGIC) + DIGEST_BYTES, self.limit)
        except OSError:
            return None
        if start != MAGIC + _digest(key, data):
            with self._lock:
                self._damaged.append(path.name)
            with suppress(OSError):
                _remove(path)
            return None
        with suppress(OSError):
            os.utime(path)
        return data

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Keep the bytes if possible; data larger than the whole cache may be is not kept."""
        if len(data) <= self.limit:
            with self._noting_failure():
                path = self._path(key)
                self._make(path.parent)
                _write(path, MAGIC + _digest(key, data), data)

    def notes(self) -> tuple[str, ...]:
        """Return notes for the user about damaged entries and a directory that is not writable."""
        with self._lock:
            damaged, unwritable = len(self._damaged), self.unwritable
        found = []
        if damaged:
            found.append(f"damaged entries of the cache, made anew: {damaged}")
        if unwritable:
            found.append(f"the cache in {self.folder} cannot be written: {unwritable}")
        return tuple(found)

    def read_record(self, name: str) -> bytes | None:
        """Return the record of the last build of this name; None without one."""
        try:
            return _read(self.folder / RECORDS / name, 0, RECORD_BYTES_MAX)[1]
        except OSError:
            return None

    def write_record(self, name: str, data: bytes) -> None:
        """Leave data for the next build of this name, if the folder can be written."""
        path = self.folder / RECORDS / name
        with self._noting_failure():
            self._make(path.parent)
            _write(path, data)

    def contents(self) -> Contents:
        """Return the number of entries and their bytes."""
        sizes = [status.st_size for _, status in self._entries()]
        return Contents(len(sizes), sum(sizes))

    def trim(self, limit: int | None = None) -> Contents:
        """Remove the least recently used entries beyond a limit; return what was removed.

        The limit in bytes is the store's own by default. One process trims at a time; others may
        read and write entries meanwhile.
        """
        limit = self.limit if limit is None else limit
        removed = Contents(0, 0)
        with self._noting_failure():
            self._make(self.folder / ENTRIES)
            with lock_path(self.folder / ENTRIES):
                removed = _remove_oldest([*self._entries()], limit)
                self._forget_old_records()
                self._tidy()
        return removed

    def stop(self) -> None:
        """Do nothing: a local store has nothing to wait for."""

    def clear(self) -> Contents:
        """Remove every entry and record; what was removed."""
        removed = self.trim(-1)
        remove_folder(self.folder / RECORDS)
        return removed

    def _forget_old_records(self) -> None:
        with suppress(FileNotFoundError):
            names = (p for p in (self.folder / RECORDS).iterdir() if set(p.name) <= HEX)
            for path in sorted(names, key=lambda p: p.stat().st_mtime_ns)[:-RECORDS_KEPT]:
                path.unlink(missing_ok=True)

    def _make(self, folder: Path) -> None:
        """Create a folder that other users cannot write to, whatever the umask is."""
        inner = folder.relative_to(self.folder)
        for each in (*reversed(inner.parents), inner):
            (self.folder / each).mkdir(mode=INNER_MODE, parents=True, exist_ok=True)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Note for `notes` what cannot be written in the block; it fails no build."""
        try:
            yield
        except OSError as error:
            with self._lock:
                self.unwritable = error.strerror or str(error)

    def _path(self, key: str) -> Path:
        digits = key.removeprefix("sha256:")
        return self.folder / ENTRIES / digits[:2] / digits[2:]

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield every entry that still exists, without files of other names."""
        try:
            folders = sorted((self.folder / ENTRIES).iterdir())
        except OSError:
            return
        for folder in folders:
            with suppress(OSError):
                for path in folder.iterdir():
                    if _ENTRY.match(f"{folder.name}{path.name}"):
                        with suppress(FileNotFoundError):
                            yield path, path.lstat()

    def _tidy(self) -> None:
        """Remove files that killed builds had begun to write."""
        for folder in inner_folders(self.folder):
            with suppress(OSError):
                for path in folder.iterdir():
                    if found := _UNFINISHED.match(path.name):
                        remove_abandoned(folder, found[1])


def _digest(key: str, data: bytes | memoryview) -> bytes:
    return sha256_bytes(key.encode() + b"\n" + sha256_bytes(data))


def _read(path: Path, head: int, limit: int) -> tuple[bytes, bytes]:
    """Return the first `head` bytes of a file, and the rest of at most `limit` bytes.

    Both are empty for another user's file and for anything but a regular file, since reading a
    device or a pipe might never end. Raises OSError if it cannot be read; EFBIG for a larger file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return b"", b""
        raise
    try:
        status = os.fstat(descriptor)
        # Others put files there only by exchanging a folder above this one.
        if not stat.S_ISREG(status.st_mode) or not is_ours(status):
            return b"", b""
        if status.st_size > head + limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # No more if it grows meanwhile; and as much memory is taken as is asked for.
            return file.read(head), file.read(max(0, status.st_size - head))
    finally:
        os.close(descriptor)


def _remove_oldest(found: Sequence[tuple[Path, os.stat_result]], limit: int) -> Contents:
    """Remove the least recently used files beyond a limit; return these, or raise OSError."""
    removed, freed = 0, 0
    left = sum(status.st_size for _, status in found)
    for path, status in sorted(found, key=lambda each: (each[1].st_mtime_ns, each[0].name)):
        if left <= limit:
            break
        _remove(path)
        left -= status.st_size
        removed, freed = removed + 1, freed + status.st_size
    return Contents(removed, freed)


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, *chunks: bytes | memoryview) -> None:
    """Write all of a file or nothing. Not synced: what a power cut damages, `get` recognises."""
    with temporary_file(path) as (temporary, descriptor):
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            for chunk in chunks:
                for piece in chunks_of(chunk):
                    file.write(piece)
        temporary.replace(path)
