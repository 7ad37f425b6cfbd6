"""A bundle that is an OCI layout folder: its files, of which each has to be a regular one."""

import errno
import mmap
import os
import stat
from collections.abc import Callable
from pathlib import Path

from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError, BundleFormatError, refusal
from aotc_runtime.formats import oci_layout

type MapFile = Callable[[str], memoryview]

READS_MAX = 16
"""Maximum number of reads of a folder that keeps being replaced; the last one counts."""


FOLDERS_MAX = 1000
"""A bundle has two; those that hold nothing mean nothing, but each takes time to be looked into."""


def _raise(error: OSError) -> None:
    """Raise the error of a folder that cannot be listed, which may hold anything."""
    raise error


def read_folder(path: str, shown: str, map_file: MapFile) -> dict[str, memoryview]:
    """Return the files of a layout folder, mapped, by their names in it.

    `shown` is the folder in messages; `map_file` maps the file of a path. A folder that is replaced
    meanwhile is read again, since its index and its blobs would be of two bundles. Raises
    BundleFormatError (AOTC-E109) for a path that is not a folder, and OSError.
    """
    folder = Path(path)
    for _ in range(READS_MAX - 1):
        before = _identity(folder)
        try:
            members = _read_once(folder, shown, map_file)
        except (OSError, BundleFormatError):
            if _identity(folder) == before:
                raise
        else:
            if _identity(folder) == before:
                return members
    return _read_once(folder, shown, map_file)


def _identity(folder: Path) -> tuple[int, int, int]:
    """Return the identity of a folder, with times, since inode numbers are reused."""
    status = folder.stat()
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _too_many(shown: str, expected: str, hint: str | None = None) -> AotcError:
    cause = "too-many-files-in-the-bundle-directory"
    return refusal("AOTC-E109", shown, "more", cause=cause, expected=expected, hint=hint)


def _read_once(folder: Path, shown: str, map_file: MapFile) -> dict[str, memoryview]:
    if not (folder / oci_layout.LAYOUT_FILE).is_file():
        raise refusal("AOTC-E109", shown, "", expected=f"a file {oci_layout.LAYOUT_FILE}")
    members: dict[str, memoryview] = {}
    inner = 0
    for parent, folders, files in os.walk(folder, onerror=_raise, followlinks=False):
        inner += len(folders)
        if inner > FOLDERS_MAX:
            raise _too_many(shown, f"at most {FOLDERS_MAX} directories", "remove empty directories")
        within = Path(parent).relative_to(folder).parts
        for name in sorted(folders + files):
            path, inside = f"{parent}/{name}", "/".join((*within, name))
            mode = _mode(path)
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                cause = "link-in-the-bundle-directory"
                raise refusal("AOTC-E109", f"{shown} {inside}", "", cause=cause)
            if stat.S_ISREG(mode):
                if len(members) >= limits.BLOBS_MAX:
                    raise _too_many(shown, f"at most {limits.BLOBS_MAX} files")
                members[inside] = _map_blob(path, map_file, shown, len(members))
    return members


def _mode(path: str) -> int:
    """Return a file's mode without following links; 0 if it cannot be read."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _map_blob(path: str, map_file: MapFile, shown: str, before: int) -> memoryview:
    """Return the bytes of a file, mapped after `before` others."""
    try:
        return map_file(path)
    except OSError as error:
        if error.errno != errno.ENOMEM or _maps_one_page():
            raise
        cause = "memory-map-limit-reached"
        raise refusal("AOTC-E109", shown, f"{before} mapped files", cause=cause) from error


def _maps_one_page() -> bool:
    """Return whether one more map fits; if so, the other one was too large."""
    try:
        mmap.mmap(-1, mmap.PAGESIZE).close()
    except OSError:
        return False
    return True
