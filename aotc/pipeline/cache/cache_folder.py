"""The folder of the local cache: where it is, how large it may become, who may write to it."""

import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from aotc.base.byte_sizes import bytes_of
from aotc.base.directory_owner import other_writers
from aotc.base.errors import refusal
from aotc.pipeline.cache.cache_store import LocalStore, inner_folders
from aotc_runtime.base.errors import AotcError

OFF = "off"
LIMIT = 10 * 2**30
"""Bytes, by default. Five of the examples in manifests/ for three targets take 120 MB."""

FOLDER_MODE = 0o700


def default_folder(environment: Mapping[str, str]) -> Path:
    """Return `$XDG_CACHE_HOME/aotc`, or `~/.cache/aotc`.

    A relative XDG_CACHE_HOME is ignored (https://specifications.freedesktop.org/basedir-spec).
    Raises UsageError (AOTC-E060) for a user without a home, such as a container's nameless user id.
    """
    stated = Path(environment.get("XDG_CACHE_HOME", ""))
    if stated.is_absolute():
        return stated / "aotc"
    try:
        return Path.home() / ".cache" / "aotc"
    except RuntimeError as error:
        raise refusal(
            "AOTC-E060", "default cache", "", cause="no-default-cache-directory"
        ) from error


def open_store(place: str | None, limit: str | None, environment: Mapping[str, str]) -> LocalStore:
    """Return the store in a folder, which is made if it is missing.

    Raises UsageError: AOTC-E060 a folder that others may write to, wholly or in part, or that
    cannot be made, E061 a limit that is not a size.
    """
    if place == "":
        raise refusal("AOTC-E060", "--cache", "an empty name")
    folder = default_folder(environment) if place is None else Path(place)
    size = size_of(limit)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        # Where links lead now: whose they are, they could lead elsewhere once this was looked at.
        folder = folder.resolve()
        others = other_writers(folder)
        reachable = folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH)
    except (FileExistsError, NotADirectoryError) as error:
        raise refusal("AOTC-E060", str(folder), "not a directory") from error
    except OSError as error:
        raise refusal("AOTC-E060", str(folder), error.strerror or str(error)) from error
    if others:
        raise _writable(folder, others)
    for inner in inner_folders(folder) if reachable else ():
        with suppress(FileNotFoundError):
            if others := other_writers(inner):
                raise _writable(inner, others)
    return LocalStore(folder, size)


def require_removed(store: LocalStore) -> None:
    """Raises UsageError (AOTC-E060) if something could not be removed from the store."""
    if store.unwritable:
        cause = "cache-entries-are-not-removable"
        raise refusal("AOTC-E060", str(store.folder), store.unwritable, cause=cause)


def size_of(text: str | None) -> int:
    """Return bytes of "20 GiB"; the default for None. Raises UsageError (AOTC-E061)."""
    if text is None:
        return LIMIT
    size = bytes_of(text.strip())
    if size is None:
        raise refusal("AOTC-E061", "--cache-size", repr(text))
    return size


def _writable(folder: Path, others: str) -> AotcError:
    cause = "cache-directory-is-writable-by-other-users"
    return refusal("AOTC-E060", str(folder), others, cause=cause)
