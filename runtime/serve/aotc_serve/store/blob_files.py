"""Blobs as files named by their digests.

A file gets its name once it is complete and hashed. Until then it lies in `partial`, locked by its
writer; the next writer takes over after a crash.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography.hazmat.primitives import hashes

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.formats import oci_layout

BLOBS, PARTIAL, BUNDLES, LOCK = oci_layout.BLOB_FOLDER, "partial", "bundles", "lock"
TICK_SECONDS = 0.05
LOCK_SECONDS = 10.0
"""Timeout of a lock that other users may be able to hold. Without it, fetched blobs may be removed
meanwhile, which is detected, and fetched again.
"""

READ_BYTES = 2**20
NO_LINK = os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def temporary() -> Iterator[Path]:
    """Yield a folder for the time of a command. Raises ResourceError (AOTC-E560)."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="aotc-")
    except OSError as error:
        raise unusable(tempfile.gettempdir(), error) from error
    with folder as name:
        yield Path(name)


class FileSink:
    """The end of a file, and the hash of all its bytes; `shown` is its name in messages."""

    def __init__(self, descriptor: int, shown: str) -> None:
        self._descriptor, self._shown = descriptor, shown
        self._written, self._hash = 0, hashes.Hash(hashes.SHA256())
        try:
            while piece := os.pread(descriptor, READ_BYTES, self._written):
                self._hash.update(piece)
                self._written += len(piece)
        except OSError as error:
            raise unusable(shown, error) from error

    def size_written(self) -> int:
        """Return the number of bytes written."""
        return self._written

    def restart(self) -> None:
        """Drop what was written."""
        try:
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            raise unusable(self._shown, error) from error
        self._written, self._hash = 0, hashes.Hash(hashes.SHA256())

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes. Raises ResourceError (AOTC-E560) if the folder has no room."""
        view = memoryview(data)
        while view:
            try:
                number = os.pwrite(self._descriptor, view, self._written)
            except OSError as error:
                # What takes the last room is of no use, to nobody.
                with suppress(AotcError):
                    self.restart()
                raise unusable(self._shown, error) from error
            self._hash.update(view[:number])
            self._written += number
            view = view[number:]

    def digest(self) -> str:
        """Return the digest of what was written."""
        return "sha256:" + self._hash.copy().finalize().hex()


class BlobFiles:
    """The blobs of one folder, which several processes may share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        """Return the path of a blob."""
        return self.folder / BLOBS / digest.removeprefix("sha256:")

    def has(self, digest: str, size: int) -> bool:
        """Return whether a file of this name and size exists; its user hashes it."""
        try:
            return self.path(digest).stat(follow_symlinks=False).st_size == size
        except OSError:
            return False

    def make(self) -> None:
        """Create the folders. Raises ResourceError (AOTC-E560)."""
        try:
            for name in (BLOBS, PARTIAL, BUNDLES):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unusable(str(self.folder), error) from error

    @contextmanager
    def receiving(
        self, digest: str, size: int, wait: Callable[[float], None] = time.sleep
    ) -> Iterator[FileSink | None]:
        """Yield a sink for a blob, or None if the blob is present.

        The blob gets its name at the end, unless it has other bytes (AOTC-E201). `wait` sleeps
        while another process writes it. Raises ResourceError (AOTC-E560).
        """
        self.make()
        partial = self.folder / PARTIAL / digest.removeprefix("sha256:")
        try:
            descriptor = _lock_file(partial, wait)
        except OSError as error:
            raise unusable(str(partial), error) from error
        try:
            if self.has(digest, size):
                with suppress(OSError):
                    partial.unlink(missing_ok=True)
                yield None
                return
            sink = FileSink(descriptor, str(self.folder))
            yield sink
            if (sink.size_written(), found := sink.digest()) != (size, digest):
                cause = "stored-blob-is-corrupt"
                raise refusal("AOTC-E201", str(self.folder), found, cause=cause, expected=digest)
            try:
                os.fsync(descriptor)
                os.fchmod(descriptor, 0o444)
                partial.rename(self.path(digest))
            except OSError as error:
                raise unusable(str(self.path(digest)), error) from error
        finally:
            with suppress(OSError):
                if os.fstat(descriptor).st_size == 0 and size:
                    partial.unlink(missing_ok=True)
            os.close(descriptor)

    def put(self, digest: str, data: bytes | memoryview) -> None:
        """Keep bytes that were hashed."""
        if self.has(digest, len(data)):
            return
        with self.receiving(digest, len(data)) as sink:
            if sink is not None:
                sink.restart()
                sink.write(data)

    def write_record(self, name: str, data: bytes) -> None:
        """Write a small file atomically. Raises ResourceError (AOTC-E560)."""
        self.make()
        path, partial = self.folder / BUNDLES / name, self.folder / PARTIAL / name
        try:
            descriptor = _lock_file(partial, time.sleep)
            try:
                with open(descriptor, "wb", closefd=False) as file:
                    file.truncate(0)
                    file.write(data)
                os.fsync(descriptor)
                os.fchmod(descriptor, 0o644)
                partial.rename(path)
            except BaseException:
                with suppress(OSError):
                    partial.unlink(missing_ok=True)
                raise
            finally:
                os.close(descriptor)
            for folder in (BLOBS, BUNDLES):
                _sync(self.folder / folder)
        except OSError as error:
            raise unusable(str(path), error) from error

    def remove(self, path: Path) -> int:
        """Remove a file; its size, bytes. Who has it mapped keeps it. Raises AOTC-E560."""
        try:
            size = path.stat(follow_symlinks=False).st_size
            path.unlink()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise unusable(str(path), error) from error
        return size

    @contextmanager
    def keep_blobs(self) -> Iterator[None]:
        """Prevent the removal of unreferenced blobs during a block.

        It prevents nothing if another process holds the lock for longer than `LOCK_SECONDS`.
        """
        with self._lock(fcntl.LOCK_SH, LOCK_SECONDS):
            yield

    @contextmanager
    def alone(self, patience: float) -> Iterator[bool]:
        """Yield whether the folder is locked exclusively within `patience` seconds."""
        with self._lock(fcntl.LOCK_EX, patience) as is_held:
            yield is_held

    @contextmanager
    def _lock(self, kind: int, patience: float) -> Iterator[bool]:
        """Yield whether the lock is held, or not needed."""
        try:
            descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
        except OSError:
            # Nobody adds to a folder that cannot be written.
            yield True
            return
        try:
            with suppress(OSError):  # another user's: those who can open a file can lock it
                os.fchmod(descriptor, 0o600)
            end = time.monotonic() + patience
            while not (is_held := _try(descriptor, kind)) and time.monotonic() < end:
                time.sleep(TICK_SECONDS)
            yield is_held
        finally:
            os.close(descriptor)


def _lock_file(path: Path, wait: Callable[[float], None]) -> int:
    """Return a descriptor of the file, which this process alone has locked. Raises OSError."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
        try:
            while not _try(descriptor, fcntl.LOCK_EX):
                wait(TICK_SECONDS)
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(follow_symlinks=False), os.fstat(descriptor)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unusable(where: str, error: OSError) -> AotcError:
    """AOTC-E560 for what the system said."""
    return refusal("AOTC-E560", where, error.strerror or str(error))
