"""Reading pipes, such as a shell's `<(command)`."""

import errno
import os

PIPE_BYTES = 2**16


def read_pipe(descriptor: int, count: int) -> bytes:
    """Read a pipe until its writers close it, at most `count` bytes.

    Raises OSError if nobody writes into it.
    """
    try:
        data = os.read(descriptor, min(count, PIPE_BYTES))
    except BlockingIOError:  # there is a writer, who has not written yet
        data = b""
    else:
        if not data:
            raise OSError(errno.EINVAL, "a pipe without a writer")
    os.set_blocking(descriptor, True)
    parts = [data]
    left = count - len(data)
    while left and (data := os.read(descriptor, min(left, PIPE_BYTES))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
