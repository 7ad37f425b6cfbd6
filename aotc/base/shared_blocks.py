"""Files that become a part of another, such as shards of weights in an archive."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

PIECE_BYTES = 2**20

ASKED_BYTES = 2**24
"""What the system is asked to copy at once: who hashes or syncs it follows that closely."""

_NOT_COPIED = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM)
"""What systems say that cannot copy by themselves, or not between these file systems."""


class BecameShorterError(OSError):
    """A file that is copied from has lost bytes meanwhile: no fault of the place copied to."""


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file whose bytes are to be copied, and how many they are."""

    path: Path
    size: int

    def append_to(self, file: BinaryIO) -> int:
        """Have the system copy the bytes to the end of an open file; how many they were. Raises
        OSError.
        """
        return sum(self.appended_to(file))

    def appended_to(self, file: BinaryIO) -> Iterator[int]:
        """Append to a file, and give how many bytes each time there are some more of them."""
        with self.path.open("rb", buffering=0) as source:
            yield from appended(source.fileno(), 0, self.size, file, str(self.path))


def appended(source: int, start: int, size: int, file: BinaryIO, name: str) -> Iterator[int]:
    """Have the system copy bytes of one file to the end of another (copy_file_range(2)): none of
    them comes into this process. How many, each time there are some more of them.

    source: of which bytes from `start` on are copied.  name: of it, for messages.
    Raises OSError, of it BecameShorterError where the source ends sooner.
    """
    file.flush()
    at, end = start, start + size
    while at < end:
        copied = _copied(source, file.fileno(), min(ASKED_BYTES, end - at), at)
        if not copied:  # some systems also say so of files that they cannot copy
            copied = file.write(os.pread(source, min(PIECE_BYTES, end - at), at))
            file.flush()
        if not copied:
            raise BecameShorterError(errno.EIO, "a file has become shorter", name)
        at += copied
        yield copied
    file.seek(0, os.SEEK_END)


def _copied(source: int, target: int, count: int, start: int) -> int:
    """How many bytes the system has copied to where the other file stands."""
    try:
        return os.copy_file_range(source, target, count, start)
    except OSError as error:
        if error.errno not in _NOT_COPIED:
            raise
    return 0
