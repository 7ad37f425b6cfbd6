"""Writing so that a crash at any moment leaves the old file or the new one, never half of one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from aotc.errors import UsageError
from aotc.packing.exchange import exchange
from aotc_runtime.errors import Finding

FILE_MODE, FOLDER_MODE = 0o644, 0o755
"""Of what did not exist before; what is replaced keeps its mode and, if possible, its owner."""


def write_atomically(
    path: Path, chunks: Iterable[bytes | memoryview], mode: int | None = None
) -> int:
    """Write to a temporary name beside `path`, fsync, rename; the number of bytes written.

    mode: instead of that of the file that is replaced. Raises UsageError (AOTC-E003) if the place
    cannot be written.
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
            kept = _keep_owner(file.fileno(), path, FILE_MODE)
        Path(temporary).chmod(kept if mode is None else mode)
        Path(temporary).replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                Path(temporary).unlink()
    return size


def write_folder_atomically(path: Path, members: Iterable[tuple[str, bytes | memoryview]]) -> int:
    """Write a folder under a temporary name, fsync, and put it in place of what was there.

    Raises UsageError (AOTC-E003) if the place cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        temporary.chmod(FOLDER_MODE)
        size = 0
        for name, data in members:
            file = temporary / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as stream:
                size += stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
                os.fchmod(stream.fileno(), _keep_owner(stream.fileno(), path / name, FILE_MODE))
        _keep_folders(temporary, path)
        if not path.exists():
            temporary.rename(path)
        elif not exchange(temporary, path):
            _replace_in_two_steps(path, temporary)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            _remove(temporary)
    return size


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
        finally:
            os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove a folder, also one whose own mode forbids to empty it."""
    for parent, _, _ in os.walk(folder):
        with suppress(OSError):
            descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                os.fchmod(descriptor, 0o700)
            finally:
                os.close(descriptor)
    shutil.rmtree(folder, ignore_errors=True)


def _replace_in_two_steps(path: Path, new: Path) -> None:
    """Where names cannot be exchanged: a kill in between leaves the old folder beside its place."""
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    path.rename(old / "layout")
    new.rename(path)
    _remove(old)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cannot_write(path: Path, error: OSError) -> UsageError:
    """AOTC-E003 for what the system said."""
    return UsageError(
        Finding(
            code="AOTC-E003",
            where=str(path),
            expected="a place that can be written",
            found=error.strerror or str(error),
            hint="check the folder, its permissions and the free space; nothing was written",
        )
    )
