"""Which folder a build's cache is, how large it may become, and whether it can be trusted."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from aotc.cache.store import LocalStore
from aotc.config.fields import bytes_of
from aotc.errors import UsageError
from aotc_runtime.errors import Finding

OFF = "off"
LIMIT = 10 * 2**30
"""Bytes; our five examples on three targets take 120 MB."""

FOLDER_MODE = 0o700


def default_folder(environment: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/aotc`, or `~/.cache/aotc`
    (https://specifications.freedesktop.org/basedir-spec: a relative one is to be ignored).
    """
    home = environment.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "aotc"


def open_store(place: str | None, limit: str | None, environment: Mapping[str, str]) -> LocalStore:
    """The store in a folder, which is made if it is missing. place: None for the default.  limit:
    "20 GiB"; 10 GiB if it is None.

    Raises UsageError: AOTC-E060 a folder that others may write, or none at all, E061 no size.
    """
    if place == "":
        raise _unusable("", "no name of a folder")
    folder = default_folder(environment) if place is None else Path(place)
    size = size_of(limit)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        found = folder.stat()
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from error
    if found.st_uid not in (os.geteuid(), 0):
        raise _unusable(folder, f"it belongs to another user, {found.st_uid}")
    if found.st_mode & stat.S_IWOTH:
        raise _unusable(folder, "everybody may write there")
    return LocalStore(folder, size)


def require_removed(store: LocalStore) -> None:
    """Refuse to say that something was removed which was not. Raises UsageError (AOTC-E060)."""
    if store.unwritable:
        raise _unusable(store.folder, f"not all of it could be removed: {store.unwritable}")


def size_of(text: str | None) -> int:
    """Bytes of "20 GiB"; the default for None. Raises UsageError (AOTC-E061)."""
    if text is None:
        return LIMIT
    size = bytes_of(text.strip())
    if size is None:
        raise UsageError(
            Finding(
                code="AOTC-E061",
                where="--cache-size",
                expected="a size: 500 MB, 20 GiB",
                found=repr(text),
                hint="units are B, kB, MB, GB, TB, KiB, MiB, GiB and TiB",
            )
        )
    return size


def _unusable(folder: Path | str, found: str) -> UsageError:
    return UsageError(
        Finding(
            code="AOTC-E060",
            where=f"the cache in {folder}",
            expected="a folder that only you can write: executables are taken from it",
            found=found,
            hint="name another one with --cache, or build with --cache off",
        )
    )
