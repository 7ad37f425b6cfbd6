"""Clean environments, one for each release of an engine, in the user's cache folder.

A lock is held while one is made or used. One that is there is used as it is.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aotc.base.child_processes import Processes
from aotc.base.directory_owner import other_writers
from aotc.base.errors import refusal
from aotc.base.package_install import install
from aotc.base.temporary_files import temporary_folder
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.certified_releases import Release

FOLDER_MODE = 0o700

LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Environments:
    """The environments of a user's cache. refresh: make them anew. note: given a line when one is
    made, which takes a while.
    """

    folder: Path
    refresh: bool
    note: Callable[[str], None]
    processes: Processes

    @contextmanager
    def environment(self, release: Release) -> Iterator[Path]:
        """The interpreter of an environment with this release, which stays while this lasts.

        Raises ResourceError: AOTC-E557 the package index cannot be had, E558 it has no such wheel
        for this Python, E559 the environment cannot be made.
        """
        kind = f"{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}"
        place = self.folder / f"{release.package}-{release.version}-{kind}"
        python = place / "bin" / "python"
        try:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                if others := other_writers(folder):
                    cause = "environment-directory-is-writable-by-other-users"
                    raise refusal("AOTC-E559", str(folder), others, cause=cause)
            with Path(f"{place}{LOCK}").open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                # A link to an interpreter outside, which may have been removed.
                if self.refresh or not python.exists():
                    self._make(place, release)
                fcntl.flock(lock, fcntl.LOCK_SH)  # others may use it too
                yield python
        except OSError as error:
            where = error.filename if isinstance(error.filename, str) else self.folder
            raise _unusable(where, error.strerror or str(error)) from error

    def _make(self, place: Path, release: Release) -> None:
        self.note(f"installing {release} into {place}")
        with temporary_folder(self.folder, f".{place.name}.") as folder:
            install(folder / "made", release, self.processes)
            put(folder / "made", place)


def put(made: Path, place: Path) -> None:
    """Rename a folder to a place; what is there, of whatever kind, is renamed beside it."""
    if os.path.lexists(place):
        place.rename(made.with_name("replaced"))
    made.rename(place)


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/aotc/certify, by default in ~/.cache:
    https://specifications.freedesktop.org/basedir-spec/latest/.

    Raises ResourceError (AOTC-E559) for a user without a home, such as a container's number that no
    name belongs to.
    """
    stated = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        base = stated if stated.is_absolute() else Path.home() / ".cache"
    except RuntimeError as error:
        found = "neither XDG_CACHE_HOME nor a home directory"
        raise _unusable("the directory for environments", found) from error
    return base / "aotc" / "certify"


def _unusable(where: Path | str, found: str) -> AotcError:
    return refusal(
        "AOTC-E559",
        str(where),
        found,
        cause="environment-directory-is-not-usable",
    )
