"""The sockets of gRPC's connections, by what the system knows of them.

grpc closes no connection that its user names, takes back no answer that it was given, and does not
say how much of a message has arrived.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BYTES_RECEIVED = 128
"""Where `tcp_info` of linux/tcp.h has tcpi_bytes_received, 64 bits."""

FOLDER = Path("/proc/self/fd")


def find_sockets() -> dict[str, int]:
    """Return the number of the socket of each peer, named as gRPC does: `ipv4:127.0.0.1:40000`."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for entry in os.scandir(FOLDER):
            number = int(entry.name)
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    with _duplicate(number) as sock:
                        found[_peer(sock)] = number
    return found


def received_bytes(number: int, peer: str) -> int | None:
    """Return how many bytes a peer has sent so far; None if that is not its socket any more."""
    try:
        with _duplicate(number) as sock:
            if _peer(sock) != peer:
                return None
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED + 8)
    except OSError:
        return None
    if len(info) < _BYTES_RECEIVED + 8:
        return None
    count: int = struct.unpack_from("Q", info, _BYTES_RECEIVED)[0]
    return count


def cut(peers: set[str]) -> None:
    """Shut down the sockets of these peers; grpc then ends their calls and forgets them."""
    found = find_sockets()
    for peer in peers:
        with suppress(OSError), _duplicate(found.get(peer, -1)) as sock:
            if _peer(sock) == peer:
                sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def _duplicate(number: int) -> Iterator[socket.socket]:
    """Yield a duplicate of a socket by its number, which nothing else can close."""
    with socket.socket(fileno=os.dup(number)) as found:
        yield found


def _peer(sock: socket.socket) -> str:
    """Raises OSError for a socket without one."""
    if sock.family == socket.AF_INET:
        return "ipv4:{}:{}".format(*sock.getpeername())
    if sock.family != socket.AF_INET6:
        return ""
    host, port = sock.getpeername()[:2]
    if host.startswith("::ffff:") and "." in host:
        return f"ipv4:{host.removeprefix('::ffff:')}:{port}"
    return f"ipv6:%5B{host}%5D:{port}"
