"""Reading of entries up to a limit, and why a remote cache cannot be used."""

from collections.abc import Callable
from http import HTTPStatus

from aotc_serve.http_client import Response

SECONDS = 5.0
"""Until more has moved (`aotc_serve.http_client.PACE_BYTES`), or an answer has begun. A cache is to
save time, and the largest executable of our examples takes 3 s to compile.
"""

CONNECT_SECONDS = 2.0
"""For each address of a host: if the first is dead, there is time for the next one."""

SENT_BYTES_UNSEEN = 4 * 2**20
"""Bytes of what was sent that may still lie in the buffers of sockets."""

SENT_BYTES_PER_SECOND = 256 * 2**10

HEAD_BYTES_MAX = 4096
"""An entry states its size within this many bytes from its start."""

CHUNK_BYTES = 256 * 2**10
"""Read at a time."""

type Limit = int | Callable[[bytes], int]
"""Most bytes to read: a number, beyond which more are an error, or a function of the first bytes
that returns where reading stops.
"""


class OutageError(Exception):
    """A remote cache cannot be used now. The text is for people."""


def unseen_seconds(size: int = SENT_BYTES_UNSEEN) -> float:
    """Return how long the unseen part of `size` bytes that were sent may take to arrive."""
    return min(size, SENT_BYTES_UNSEEN) / SENT_BYTES_PER_SECOND


def read_all(read: Callable[[int], bytes], limit: Limit) -> bytes:
    """Return what a file or a response holds, as far as the limit allows.

    Args:
        read: Returns at most so many bytes; none at the end.
        limit: If it is a number, more bytes raise OutageError.
    """
    found = bytearray()
    most = limit if isinstance(limit, int) else None
    while chunk := read(CHUNK_BYTES):
        found += chunk
        if most is None and not isinstance(limit, int) and len(found) >= HEAD_BYTES_MAX:
            most = limit(bytes(found[:HEAD_BYTES_MAX]))
        if most is not None and len(found) > most:
            if isinstance(limit, int):
                raise OutageError(f"an entry of more than {limit} bytes")
            break
    return bytes(found)


def read_entry(response: Response, limit: Limit) -> bytes | None:
    """Return what a response holds, as `read_all` does; None without such an entry."""
    if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return None
    if response.status != HTTPStatus.OK:
        raise OutageError(response.status_line)
    return read_all(response.read, limit)
