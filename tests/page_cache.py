"""How much of a file has been read, by whatever means, seen in the system's page cache."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import pytest


def forget(path: Path) -> None:
    """Have the system drop what it holds of a file. Skips where it cannot, as in a tmpfs."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if read_of(path):
        pytest.skip("a file system that cannot forget a file, such as one in memory")


def read_of(path: Path) -> int:
    """Bytes of the file in memory: what anybody has read since `forget`, by reads or through a map,
    and what the system read ahead for them.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        pages = -(-len(data) // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * pages)()
        first = ctypes.c_char.from_buffer(data)
        done = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(data)), found
        )
        del first
        assert done == 0, os.strerror(ctypes.get_errno())
        return sum(page & 1 for page in found) * mmap.PAGESIZE
