"""Writing so that a crash at any moment leaves the old file or the new one, never half of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from aotc.errors import UsageError
from aotc.packing.exchange import exchange
from aotc_runtime.errors import Finding


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
        temporary.chmod(0o755)
        size = 0
        for name, data in members:
            file = temporary / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as stream:
                size += stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        if not path.exists():
            temporary.rename(path)
        elif not exchange(temporary, path):
            _replace_in_two_steps(path, temporary)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return size


def _replace_in_two_steps(path: Path, new: Path) -> None:
    """Where names cannot be exchanged: a kill in between leaves the old folder beside its place."""
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    path.rename(old / "layout")
    new.rename(path)
    shutil.rmtree(old)


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
