"""Reading files that somebody names on a command line or in a document, whatever lies there."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading. Raises OSError; at once, also for a device or a pipe."""
    descriptor = _open(path)
    try:
        _require_regular(os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file, or of a pipe that somebody writes into, such as `<(command)`.

    Reads up to `most` + 1 bytes, so that the caller can tell a larger file. Raises OSError; at
    once for a folder, a device, and a pipe that nobody writes into, from which nothing may ever
    come.
    """
    descriptor = _open(path)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode):
            from aotc_runtime.system.pipes import read_pipe

            return read_pipe(descriptor, most + 1)
        _require_regular(mode)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(descriptor)


def _open(path: str | os.PathLike[str]) -> int:
    # Without O_NONBLOCK, opening a pipe waits for somebody to write into it.
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def _require_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "no regular file")
