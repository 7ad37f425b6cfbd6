"""Clean environments, one for each release of an engine: made once, checked before each use.

They lie in the user's cache folder, each under a name that states the release and the kind of
Python. A lock is held while one is made, used or removed. Each is sealed with the digest of
every file that the installation wrote; what has changed since is made anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aotc.base.child_processes import Processes
from aotc.base.directory_owner import other_writers
from aotc.base.errors import refusal
from aotc.base.package_install import install
from aotc.base.temporary_files import remove_folder, temporary_folder
from aotc_runtime.base.digest import cores
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.certified_releases import Release

CACHE_BYTES_MAX = 8 * 2**30
"""What all environments may take together, up to 0.6 GB each; those used least recently go first.
"""

FOLDER_MODE = 0o700

SEAL = "sealed.json"
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
        try:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                if others := other_writers(folder):
                    raise _unusable(folder, f"a folder to which {others} may write")
            with _locked(self.folder, release) as descriptor:
                place = self.folder / _name(release)
                if self.refresh or not is_whole(place):
                    self._make(place, release)
                os.utime(place / SEAL)
                fcntl.flock(descriptor, fcntl.LOCK_SH)  # others may use it too
                yield place / "bin" / "python"
        except OSError as error:
            where = error.filename if isinstance(error.filename, str) else self.folder
            raise _unusable(where, error.strerror or str(error)) from error

    def _make(self, place: Path, release: Release) -> None:
        self.note(f"installing {release} into {place}")
        with temporary_folder(self.folder, f".{place.name}.") as made:
            install(made, release, self.processes)
            (made / SEAL).write_bytes(msgspec.json.encode(_digests(made), order="sorted"))
            _clear(place)
            made.rename(place)
        make_room(self.folder, CACHE_BYTES_MAX, place)


def _clear(place: Path) -> None:
    """Remove a path of any kind; of a link, the link and not its target."""
    if place.is_symlink() or place.is_file():
        place.unlink()
    remove_folder(place)


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
        found = "neither $XDG_CACHE_HOME nor a home of this user"
        raise _unusable("the environments' folder", found) from error
    return base / "aotc" / "certify"


def is_whole(place: Path) -> bool:
    """Whether an environment holds exactly the files that were installed, byte for byte."""
    try:
        sealed = msgspec.json.decode((place / SEAL).read_bytes(), type=dict[str, str])
        # The interpreter is a link to one outside, which may have been removed.
        return (place / "bin" / "python").exists() and sealed == _digests(place)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return False


def make_room(folder: Path, most: int, keep: Path) -> None:
    """Remove environments until all together are at most so many bytes: those used least recently
    first, none that is in use, and not the one to keep.
    """
    # What is being made begins with a dot.
    found = [path for path in folder.glob("[!.]*") if path.is_dir()]
    sizes = {path: _size(path) for path in found}
    for path in sorted(found, key=_last_used):
        if sum(sizes.values()) <= most:
            return
        if path != keep and _remove_unused(path):
            del sizes[path]


def _remove_unused(place: Path) -> bool:
    with suppress(OSError):
        descriptor = os.open(f"{place}{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_folder(place)
            return True
        finally:
            os.close(descriptor)
    return False


@contextmanager
def _locked(folder: Path, release: Release) -> Iterator[int]:
    # A file beside the folder, since that is replaced.
    name = folder / f"{_name(release)}{LOCK}"
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _name(release: Release) -> str:
    kind = f"{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}"
    return f"{release.package}-{release.version}-{kind}"


def _digests(place: Path) -> dict[str, str]:
    """The digest of every file by its path; for a link, where it leads."""
    paths = [
        Path(parent) / name
        for parent, folders, names in os.walk(place)
        for name in (*names, *(f for f in folders if (Path(parent) / f).is_symlink()))
    ]
    relative = {path.relative_to(place).as_posix(): path for path in paths}
    relative.pop(SEAL, None)
    with ThreadPoolExecutor(cores()) as pool:
        return dict(zip(relative, pool.map(_digest, relative.values()), strict=True))


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(place: Path) -> int:
    files = (Path(parent) / name for parent, _, names in os.walk(place) for name in names)
    return sum(file.lstat().st_size for file in files)


def _last_used(place: Path) -> float:
    try:
        return (place / SEAL).stat().st_mtime
    except OSError:
        return 0.0


def _unusable(where: Path | str, found: str) -> AotcError:
    return refusal(
        "AOTC-E559",
        str(where),
        found,
        expected="a cache folder that only you can write to, with room for the environment",
        hint="free some space, take others' right to write away (chmod go-w), or set "
        "XDG_CACHE_HOME to another folder",
    )
