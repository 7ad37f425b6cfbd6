"""The socket that a server of HTTP listens at: opened here, or passed by systemd."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import MutableMapping

from aotc_runtime.base.errors import AotcError, refusal

SYSTEMD_SOCKETS = 3
"""The number of the first socket that systemd passes on."""

BACKLOG = 4096


class Listening:
    """The socket that systemd has opened for this process, or a new one.

    Raises ServerError (AOTC-E782).
    """

    def __init__(self, host: str, port: int) -> None:
        passed = _passed_socket(os.environ)
        self._is_ours = passed is None
        self.socket = _open(host, port) if passed is None else passed
        self.host, self.port = self.socket.getsockname()[:2]

    def stop(self) -> list[socket.socket]:
        """Take no more connections, and return those that are in the queue.

        A client that connects afterwards is refused. Where systemd has the socket, too, its queue
        is the next process's.
        """
        found: list[socket.socket] = []
        with contextlib.suppress(OSError):
            while len(found) < BACKLOG:
                found.append(self.socket.accept()[0])
        if self._is_ours:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RD)
        return found


def _open(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)  # before anybody is told the address
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError) as error:
        raise refusal("AOTC-E782", f"{host}:{port}", str(error)) from error
    return listening


def _passed_socket(environment: MutableMapping[str, str]) -> socket.socket | None:
    """Return the socket that systemd passed to this process, or None.

    See sd_listen_fds(3). Raises ServerError (AOTC-E782) for anything but one listening socket.
    """
    named = [environment.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")]
    if named[0] != str(os.getpid()) or named[1] in ("", "0"):
        return None
    if named[1] != "1":
        raise _not_passed(f"{named[1]} of them")
    try:
        found = socket.socket(fileno=SYSTEMD_SOCKETS)
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise _not_passed(error.strerror or str(error)) from error
    is_tcp = found.type == socket.SOCK_STREAM and found.family in (socket.AF_INET, socket.AF_INET6)
    if not (is_tcp and listens):
        shown = f"{found.family.name} {found.type.name}{'' if listens else ', not listening'}"
        found.detach()
        raise _not_passed(shown)
    found.set_inheritable(False)
    return found


def _not_passed(found: str) -> AotcError:
    expected, cause = "one listening TCP socket", "systemd-socket-is-invalid"
    return refusal("AOTC-E782", "LISTEN_FDS", found, cause=cause, expected=expected)


def raise_file_limit(connections: int) -> None:
    """Raise this process's limit of open files to one for each connection, if allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 1024
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
