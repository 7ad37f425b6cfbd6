"""Has the system write a file to its disk while something else is done: hashing it, or writing more
of it. Only fsync says that it is there.
"""

from __future__ import annotations

import ctypes
import os

SYNC_FILE_RANGE_WRITE = 2
"""linux/fs.h; sync_file_range(2)."""

LARGE_BYTES = 2**20
"""Less than this is on the disk before anything else would be done."""


def begin_to_sync(descriptor: int, start: int = 0, size: int = 0) -> None:
    """Begin to write what an open file holds from `start` on, and wait for nothing. Systems that
    cannot do so write it all when fsync asks for it, which also says what fails here.

    size: in bytes; 0 for all of it.
    """
    if (size or os.fstat(descriptor).st_size) >= LARGE_BYTES:
        sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
        if sync_file_range is not None:
            begin, count = ctypes.c_int64(start), ctypes.c_int64(size)
            sync_file_range(descriptor, begin, count, ctypes.c_uint(SYNC_FILE_RANGE_WRITE))
