"""Bundles that are read once and not used: a bundle of any size in little memory.

The bytes are mapped as for a load, but `aotc_runtime.base.digest.chunks_of` keeps only one chunk of
them in memory at a time. The system keeps the pages as long as it has room for them, so that
nothing is read from the disk again meanwhile.
"""

import os
from collections.abc import Callable, Iterator
from mmap import ALLOCATIONGRANULARITY as PAGE
from mmap import MADV_DONTNEED, mmap
from pathlib import Path
from typing import Any

from aotc_runtime.system.bundle_files import MappedBundle, map_file, open_bundle

CHUNK_BYTES = 2 * 2**20
"""In memory of each thread that reads; hashing it takes far longer than giving it back."""


AROUND_BYTES = 2**16
"""Reading a page maps those around it, too (fault-around, 64 KiB on Linux): the first page of a
chunk brings back some of the chunk before, which would add up to 30 MiB for each GiB.
"""

type OnProgress = Callable[[int], None]
"""A callback with the number of bytes read since the last call, from any thread."""


def ignore_progress(number: int) -> None:
    """Do nothing."""


class PassedMap(mmap):
    """A map of which one chunk at a time is in memory, if it is read by `chunks`.

    `on_progress` is called after each chunk.
    """

    on_progress: OnProgress = staticmethod(ignore_progress)

    def chunks(self, view: memoryview) -> Iterator[memoryview]:
        """Yield the bytes of a view over this map; each chunk's memory is released after it."""
        size = len(view)
        begin = _address(view) - _address(memoryview(self)) if size else 0
        for start in range(0, size, CHUNK_BYTES):
            chunk = view[start : start + CHUNK_BYTES]
            yield chunk
            first = max(0, (begin + start) // PAGE * PAGE - AROUND_BYTES)
            self.madvise(MADV_DONTNEED, first, begin + start + len(chunk) - first)
            self.on_progress(len(chunk))


def _address(view: memoryview) -> int:
    import numpy as np

    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def pass_file(path: Path) -> memoryview:
    """Return the file's bytes, mapped read-only to be passed through. Raises OSError."""
    return map_file(path, PassedMap)


def open_streamed(
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
