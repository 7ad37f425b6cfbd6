"""Bundles that are read once and not used: a bundle of any size in little memory.

`aotc_runtime.base.digest.chunks_of` reads their bytes from the files, one chunk at a time, and not
through the maps. A file that is truncated meanwhile is then an error; touching a page of a map that
is no longer in the file ends the process with SIGBUS.
"""

import os
from collections.abc import Callable, Iterator
from mmap import mmap
from pathlib import Path
from typing import Any, Self

from aotc_runtime.base.errors import refusal
from aotc_runtime.system.bundle_files import MappedBundle, map_file, open_bundle
from aotc_runtime.system.held_maps import duplicate

CHUNK_BYTES = 2 * 2**20
"""In memory of each thread that reads."""

type OnProgress = Callable[[int], None]
"""A callback with the number of bytes read since the last call, from any thread."""


def ignore_progress(number: int) -> None:
    """Do nothing."""


class PassedMap(mmap):
    """A map that stands for the bytes of an open file, which `chunks` reads.

    `on_progress` is called after each chunk.
    """

    on_progress: OnProgress = staticmethod(ignore_progress)
    _held: int = -1

    def __new__(cls, descriptor: int, size: int, **options: Any) -> Self:
        """Map an open file, and keep a descriptor of its own for it. Raises OSError."""
        made = super().__new__(cls, descriptor, size, **options)
        made._held = duplicate(descriptor)
        return made

    def __del__(self) -> None:
        if self._held >= 0:
            os.close(self._held)

    def chunks(self, view: memoryview) -> Iterator[bytes]:
        """Yield the bytes of a view over this map, as they are in the file.

        Raises IntegrityError (AOTC-E206) if the file has become shorter, and OSError.
        """
        at = _address(view) - _address(memoryview(self)) if view else 0
        end = at + len(view)
        while at < end:
            chunk = os.pread(self._held, min(CHUNK_BYTES, end - at), at)
            if not chunk:
                where = str(Path(f"/proc/self/fd/{self._held}").readlink())
                cause = "file-was-truncated-while-it-was-read"
                raise refusal("AOTC-E206", where, f"{at} bytes", cause=cause)
            at += len(chunk)
            yield chunk
            self.on_progress(len(chunk))


def _address(view: memoryview) -> int:
    import numpy as np

    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def pass_file(path: Path) -> memoryview:
    """Return a file's bytes, to be read by `chunks_of`. Raises OSError."""
    return map_file(path, PassedMap)


def look_into(
    path: str | os.PathLike[str], on_progress: OnProgress = ignore_progress
) -> MappedBundle:
    """Open a bundle to be read once, as `aotc_runtime.system.bundle_files.open_bundle` does.

    `on_progress` is called after each chunk that was read.
    """

    def make(*given: Any, **options: Any) -> PassedMap:
        made = PassedMap(*given, **options)
        made.on_progress = on_progress
        return made

    return open_bundle(path, make)
