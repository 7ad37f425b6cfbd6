"""Files of a cache that are kept as they are, such as shards of weights: under another name (a hard
link) where the file system allows that, so that keeping and taking them moves no bytes.

Each is named after its digest, and its state is kept with it. One that somebody has written into
since is hashed before it is used. Whoever packs what was taken here hashes it in any case.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, msgpack

from aotc.base.constants import FULL
from aotc.base.directory_owner import is_ours
from aotc.base.temporary_files import temporary_file
from aotc_runtime.base.digest import sha256
from aotc_runtime.system.streamed_bundle import pass_file

FOLDER = "files"
_NAME = re.compile(r"[0-9a-f]{64}\Z")


class State(Struct, frozen=True, array_like=True):
    """What changes when somebody writes into a file. Its ctime would, too, but that also changes
    with every name that the file gets.
    """

    size: int
    modified: int
    number: int


class KeptFiles:
    """Files in a folder. read, write: bytes by key, for the states of the files.  make: a folder in
    that of the cache.
    """

    def __init__(
        self,
        folder: Path,
        read: Callable[[str], bytes | None],
        write: Callable[[str, bytes], None],
        make: Callable[[Path], None],
    ) -> None:
        self.folder = folder / FOLDER
        self._read, self._write, self._make = read, write, make

    def put(self, digest: str, path: Path) -> None:
        """Keep a file that has this digest. Raises OSError."""
        place = self._place(digest)
        if self._is_good(digest, place):
            return
        self._make(place.parent)
        try:
            os.link(path, place, follow_symlinks=False)
        except FileExistsError:  # another build has just kept it
            return
        except OSError as error:
            if error.errno in FULL:
                raise
            with temporary_file(place) as (temporary, _):
                shutil.copyfile(path, temporary)
                temporary.replace(place)
        self._note(digest, place)

    def get(self, digest: str, path: Path) -> bool:
        """Put the file with this digest to this path, where nothing is yet; whether there is one.
        Raises OSError if there is no room for it.
        """
        place = self._place(digest)
        if not self._is_good(digest, place):
            return False
        try:
            os.link(place, path, follow_symlinks=False)
        except FileNotFoundError:  # another build has just removed it
            return False
        except OSError as error:  # another file system, one without links, or one link too many
            if error.errno in FULL:
                raise
            shutil.copyfile(place, path)
        with suppress(OSError):  # its time of access is when it was last used
            os.utime(place, ns=(time.time_ns(), place.stat().st_mtime_ns))
        return True

    def entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Every file that is kept."""
        with suppress(OSError):
            for folder in sorted(self.folder.iterdir()):
                for path in sorted(folder.iterdir()):
                    if _NAME.match(f"{folder.name}{path.name}"):
                        with suppress(FileNotFoundError):
                            yield path, path.lstat()

    def remove_damaged(self) -> int:
        """Hash every file, and remove those that are not what their names say; how many."""
        removed = 0
        for path, _ in self.entries():
            with suppress(OSError, ValueError):
                if sha256(pass_file(path)) != f"sha256:{path.parent.name}{path.name}":
                    path.unlink()
                    removed += 1
        return removed

    def _is_good(self, digest: str, place: Path) -> bool:
        """Whether the file is there, and as it was when its bytes were known. One that is another
        is hashed, and removed if it is not what its name says.
        """
        try:
            status = place.lstat()
            if not stat.S_ISREG(status.st_mode) or not is_ours(status):
                return False
            if self._read(_key(digest)) == _encoded(status):
                return True
            if sha256(pass_file(place)) == digest:
                self._note(digest, place)
                return True
            place.unlink()
        except (OSError, ValueError):  # none there, or an empty one, which cannot be mapped
            pass
        return False

    def _note(self, digest: str, place: Path) -> None:
        self._write(_key(digest), _encoded(place.lstat()))

    def _place(self, digest: str) -> Path:
        digits = digest.removeprefix("sha256:")
        return self.folder / digits[:2] / digits[2:]


def _encoded(status: os.stat_result) -> bytes:
    return msgpack.encode(State(status.st_size, status.st_mtime_ns, status.st_ino))


def _key(digest: str) -> str:
    return sha256(f"state of {digest}".encode())
