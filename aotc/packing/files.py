"""Writing so that a crash at any moment leaves the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from aotc.errors import UsageError
from aotc_runtime.errors import Finding


def require_file_place(path: Path) -> None:
    """Refuse before the work what `write_atomically` would refuse after it.

    Raises UsageError (AOTC-E003).
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _cannot_write(path, error) from error


def require_folder_place(path: Path) -> None:
    """Refuse a folder that holds anything but an OCI layout. Raises UsageError (AOTC-E004)."""
    if path.exists() and not ((path / "oci-layout").is_file() or _is_empty_folder(path)):
        raise UsageError(
            Finding(
                code="AOTC-E004",
                where=str(path),
                expected="a new folder, or an OCI layout to replace",
                found="a folder or file with other things in it",
                hint="name another folder; nothing was written",
            )
        )


def write_atomically(path: Path, chunks: Iterable[bytes | memoryview], mode: int = 0o644) -> int:
    """Write to a temporary name beside `path`, fsync, rename; the number of bytes written.

    Raises UsageError (AOTC-E003) if the place cannot be written.
    """
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        size = 0
        with os.fdopen(descriptor, "wb") as file:
            for chunk in chunks:
                size += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                Path(temporary).unlink()
    return size


def write_folder_atomically(path: Path, members: Iterable[tuple[str, bytes | memoryview]]) -> int:
    """Write a folder under a temporary name, fsync, and put it in place of what was there.

    Raises UsageError: AOTC-E003 not writable, E004 if `path` is something that is no OCI layout.
    """
    require_folder_place(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        temporary.chmod(0o755)
        size = 0
        for name, data in members:
            file = temporary / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as stream:
                size += stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
            path.rename(old / "layout")
            temporary.rename(path)
            shutil.rmtree(old)
        else:
            temporary.rename(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return size


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(path: Path, error: OSError) -> UsageError:
    return UsageError(
        Finding(
            code="AOTC-E003",
            where=str(path),
            expected="a place that can be written",
            found=error.strerror or str(error),
            hint="check the folder, its permissions and the free space; nothing was written",
        )
    )
