"""Files that become a part of another, such as shards of weights in an archive."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

PIECE_BYTES = 2**20

_NOT_COPIED = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM)
"""What systems say that cannot copy by themselves, or not between these file systems."""


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file whose bytes are to be copied, and how many they are."""

    path: Path
    size: int

    def append_to(self, file: BinaryIO) -> int:
        """Have the system copy the bytes to the end of an open file (copy_file_range(2)): none of
        them comes into this process; how many they were. Raises OSError.
        """
        file.flush()
        with self.path.open("rb", buffering=0) as source:
            left = self.size
            while left:
                copied = _copied(source.fileno(), file.fileno(), left)
                if not copied:  # some systems also say so of files that they cannot copy
                    copied = file.write(source.read(min(left, PIECE_BYTES)))
                    file.flush()
                if not copied:
                    raise OSError(errno.EIO, "a file has become shorter", str(self.path))
                left -= copied
        file.seek(0, os.SEEK_END)
        return self.size


def _copied(source: int, target: int, count: int) -> int:
    """How many bytes the system has copied from where one file stands to where the other does."""
    try:
        return os.copy_file_range(source, target, count)
    except OSError as error:
        if error.errno not in _NOT_COPIED:
            raise
    return 0
