"""Bundles for whoever reads through them and uses nothing: a bundle of any size in little memory.

The bytes are mapped as for a load; but whoever takes them by `aotc_runtime.base.digest.pieces` has
only
one piece in memory at a time. The system keeps the pages as long as it has room for them, so that
nothing is read from the disk again meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from mmap import ALLOCATIONGRANULARITY as PAGE
from mmap import MADV_DONTNEED, mmap
from pathlib import Path
from typing import Any

from aotc_runtime.system.bundle_files import MappedBundle, map_file, open_bundle

PIECE_BYTES = 2 * 2**20
"""In memory of each thread that reads; hashing it takes far longer than giving it back."""


AROUND_BYTES = 2**16
"""Who reads a page gets those around it, too (fault-around, 64 KiB on Linux): the first of a piece
brings back some of the piece before, which would add up to 30 MiB for each GiB.
"""

type Told = Callable[[int], None]
"""Told how many bytes more were passed, in whichever thread that was."""


def nobody(number: int) -> None:
    """A `Told` that tells nobody."""


class PassedMap(mmap):
    """A map of which a piece at a time is in memory, for who reads it by `pieces`. told: of each
    piece once it was read.
    """

    told: Told = staticmethod(nobody)

    def pieces(self, view: memoryview) -> Iterator[memoryview]:
        """The bytes of a view over this map; the memory of each piece is given back after it."""
        size = len(view)
        begin = _address(view) - _address(memoryview(self)) if size else 0
        for start in range(0, size, PIECE_BYTES):
            piece = view[start : start + PIECE_BYTES]
            yield piece
            first = max(0, (begin + start) // PAGE * PAGE - AROUND_BYTES)
            self.madvise(MADV_DONTNEED, first, begin + start + len(piece) - first)
            self.told(len(piece))


def _address(view: memoryview) -> int:
    import numpy as np

    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def pass_file(path: Path) -> memoryview:
    """The file's bytes, mapped read-only to be passed through. Raises OSError."""
    return map_file(path, PassedMap)


def look_into(path: str | os.PathLike[str], told: Told = nobody) -> MappedBundle:
    """A bundle to be passed through; as `aotc_runtime.system.bundle_files.open_bundle`. told: of
    each piece that somebody has read.
    """

    def make(*given: Any, **options: Any) -> PassedMap:
        made = PassedMap(*given, **options)
        made.told = told
        return made

    return open_bundle(path, make)
