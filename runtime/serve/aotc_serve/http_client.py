"""HTTP requests to registries, remote caches, channels and timestamp authorities.

urllib3 connects, pools, tunnels through proxies and parses. This module returns a response whatever
its status, follows no redirect, decodes no content, and aborts a transfer that makes no progress.
"""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from aotc_runtime.base.digest import chunks_of
from aotc_runtime.base.errors import refusal
from aotc_runtime.system.bundle_files import read_file

CONNECT_SECONDS = 10.0
"""For each address of a host, and for the TLS handshake."""

STALL_SECONDS = 30.0
"""Until `PACE_BYTES` more have moved, or a response has begun or ended."""

PACE_BYTES = 32 * 2**10

TICK_SECONDS = 0.25

SENT_CHUNK_BYTES = 64 * 2**10
"""Small enough to see progress on a slow line."""

CONNECTIONS_KEPT = 8

REASON_MAX = 100
"""Characters of a status line's text; servers may send 65,000."""

CA_BYTES_MAX = 16 * 2**20
"""The most that a file of certificates has; a system's has 0.3 MB."""

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that are never asked through a proxy."""


class Progress(Protocol):
    """Callbacks about a request, in the thread that makes it."""

    def on_response(self) -> None:
        """Note that a response begins."""

    def on_received(self, number: int) -> None:
        """Bytes of a response's body."""

    def on_sent(self, number: int) -> None:
        """Bytes of a request's body that have left, or wait in this host's buffers."""


class NoProgress:
    """Callbacks that do nothing."""

    def on_response(self) -> None: ...  # noqa: D102

    def on_received(self, number: int) -> None: ...  # noqa: D102

    def on_sent(self, number: int) -> None: ...  # noqa: D102


NO_PROGRESS = NoProgress()


class Body:
    """The body of a request, in memory or mapped from a file, whose pages are given back."""

    def __init__(self, data: bytes | memoryview, chunk_bytes: int = SENT_CHUNK_BYTES) -> None:
        self._data, self.size, self._chunk_bytes = data, len(data), chunk_bytes

    def pieces(self) -> Iterator[memoryview]:
        """Yield it from the start."""
        for chunk in chunks_of(self._data):
            for start in range(0, len(chunk), self._chunk_bytes):
                yield memoryview(chunk)[start : start + self._chunk_bytes]


def basic_auth(user: str, password: str) -> str:
    """Return the value of an Authorization header (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


class _Transfer:
    """A request and its response under the minimum-throughput rule.

    Its connection is shut down when fewer than `PACE_BYTES` move within `stall_seconds`, or when it
    is not done by `deadline`.
    """

    def __init__(self, stall_seconds: float, deadline: float) -> None:
        self._stall_seconds, self._deadline = stall_seconds, deadline
        self.connection: HTTPConnection | None = None
        self.aborted = ""  # why, once it is
        self._socket: socket.socket | None = None
        self._moved, self._last = 0, time.monotonic()

    def watch(self, connected: socket.socket) -> None:
        self._socket = connected
        connected.settimeout(None)

    def on_moved(self, number: int = PACE_BYTES) -> None:
        self._moved += number
        if self._moved >= PACE_BYTES:
            self._moved, self._last = 0, time.monotonic()

    def abort_if_stalled(self) -> None:
        now = time.monotonic()
        if now - self._last > self._stall_seconds:
            self.abort(f"no progress within {self._stall_seconds:g} s")
        elif now > self._deadline:
            self.abort("no whole response in time")
        elif self.aborted:
            self.abort(self.aborted)  # again: it had no socket, or has another one now

    def abort(self, why: str) -> None:
        self.aborted = self.aborted or why
        # A connection that is tunneled or greeted has a socket before it is connected.
        found = self._socket or (self.connection.sock if self.connection else None)
        if found is not None:
            with suppress(OSError):  # closed meanwhile
                # SSLSocket's own method would have the rest read without TLS.
                socket.socket.shutdown(found, socket.SHUT_RDWR)

    def error(self, error: BaseException | None) -> OSError:
        """Return what has ended the transfer, without what urllib3 has wrapped around it."""
        if self.aborted:
            return TimeoutError(self.aborted)
        while error is not None:
            inner = [each for each in error.args if isinstance(each, Exception)]
            cause = error.__cause__ or (inner[-1] if inner else None)
            if cause is None:
                break
            error = cause
        if isinstance(error, (ConnectionError, TimeoutError, ssl.SSLError)):
            return error
        return ConnectionError(str(error))


_current = threading.local()
"""transfer: the one of this thread's request."""


class _Connection(HTTPConnection):
    """A connection of urllib3 that shows its socket to the transfer which uses it."""

    def connect(self) -> None:
        transfer: _Transfer = _current.transfer
        transfer.connection = self
        super().connect()
        if self.sock is not None:
            transfer.watch(self.sock)

    def putrequest(
        self, method: str, url: str, skip_host: bool = False, skip_accept_encoding: bool = False
    ) -> None:
        if self.sock is not None:  # kept from an earlier request, or with TLS
            _current.transfer.watch(self.sock)
        super().putrequest(method, url, skip_host, skip_accept_encoding)


class _TlsConnection(_Connection, HTTPSConnection):
    """A `_Connection` over TLS."""


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class Response:
    """Status, headers and body, for a `with` statement.

    A body that is read to its end leaves the connection reusable.
    """

    def __init__(
        self,
        response: urllib3.BaseHTTPResponse,
        transfer: _Transfer,
        progress: Progress,
        end: Callable[[], None],
    ) -> None:
        self.status, self.reason = response.status, (response.reason or "")[:REASON_MAX]
        self._response, self._transfer, self._progress = response, transfer, progress
        self._end = end

    def read(self, most: int) -> bytes:
        """Return at most so many bytes, as they arrive; none at the end. Raises OSError."""
        try:
            data = self._response.read1(most)
            if self._transfer.aborted:  # a body without a length ends with its connection
                raise TimeoutError
        except (HTTPError, OSError) as error:
            raise self._transfer.error(error) from error
        self._transfer.on_moved(len(data))
        self._progress.on_received(len(data))
        return data

    def header(self, name: str) -> str:
        """Return the first header of this name; empty if there is none."""
        return next(iter(self._response.headers.getlist(name)), "")

    @property
    def size(self) -> int | None:
        """The length of the body as the server states it, or None."""
        length = self.header("Content-Length")
        return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None

    @property
    def status_line(self) -> str:
        """The status line, for messages."""
        return f"HTTP {self.status} {self.reason}".rstrip()

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        if self._response.length_remaining == 0:
            with suppress(HTTPError, OSError):
                self._response.read1(1)
        self._response.close()
        self._response.release_conn()
        self._end()


class HttpClient:
    """Makes requests; threads may share it.

    `ca` is a file of certificates that TLS trusts in place of the system's. `total_seconds` limits
    all requests together, from now on; `stall_seconds` and `connect_seconds` are as the constants.
    Raises RegistryError (AOTC-E770) for a file without certificates.
    """

    def __init__(
        self,
        ca: Path | None = None,
        stall_seconds: float = STALL_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
        total_seconds: float = float("inf"),
    ) -> None:
        self.stall_seconds, self.has_own_ca = stall_seconds, ca is not None
        self._timeout = urllib3.Timeout(connect=connect_seconds, read=None)
        self._deadline = time.monotonic() + total_seconds
        self._tls = None if ca is None else _tls_context(ca)
        self._lock = threading.Lock()
        self._managers: dict[tuple[str, str], urllib3.PoolManager] = {}
        self._running: set[_Transfer] = set()
        self._watch: threading.Thread | None = None
        self._closed = threading.Event()

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Body | None = None,
        progress: Progress = NO_PROGRESS,
        stall_seconds: float | None = None,
    ) -> Response:
        """Send a request.

        `stall_seconds` replaces the client's. Raises OSError without a response: InterruptedError
        once the client is closed, TimeoutError without progress, SSLCertVerificationError, and
        ConnectionError for all else.
        """
        sent = {"User-Agent": "aotc", "Accept-Encoding": "identity", **headers}
        if body is not None:
            sent["Content-Length"] = str(body.size)
        manager = self._manager(url)
        transfer = _Transfer(stall_seconds or self.stall_seconds, self._deadline)
        self._begin(transfer)
        try:
            response = manager.urlopen(
                method,
                url,
                redirect=False,
                retries=False,
                headers=sent,
                body=None if body is None else _sent(body, transfer, progress),
                timeout=self._timeout,
                preload_content=False,
                decode_content=False,
            )
            if transfer.aborted:  # http.client takes headers that end early for all of them
                raise TimeoutError
            progress.on_response()
        except BaseException as error:
            self._end(transfer)
            if self._closed.is_set():
                raise InterruptedError("stopped") from error
            if isinstance(error, (HTTPError, OSError)) and not isinstance(error, ValueError):
                raise transfer.error(error) from error
            raise
        transfer.on_moved()
        return Response(response, transfer, progress, lambda: self._end(transfer))

    def close(self) -> None:
        """Abort what runs, and begin nothing."""
        self._closed.set()
        with self._lock:
            running, managers = tuple(self._running), tuple(self._managers.values())
        for transfer in running:
            transfer.abort("stopped")
        for manager in managers:
            manager.clear()

    def wait(self, seconds: float) -> None:
        """Sleep. Raises InterruptedError once the client is closed."""
        if self._closed.wait(seconds):
            raise InterruptedError("stopped")

    def _manager(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        host = parts.hostname or ""
        direct = host in LOOPBACK or proxy_bypass(host)
        proxy = "" if direct else getproxies().get(parts.scheme, "")
        with self._lock:
            if self._closed.is_set():
                raise InterruptedError("stopped")
            if parts.scheme == "https" and self._tls is None:
                # One for all connections: reading this host's certificates takes long.
                self._tls = _tls_context(None)
            key = parts.scheme, proxy
            if key not in self._managers:
                made = _manager(proxy, self._tls if parts.scheme == "https" else None)
                self._managers[key] = made
            return self._managers[key]

    def _begin(self, transfer: _Transfer) -> None:
        _current.transfer = transfer
        with self._lock:
            self._running.add(transfer)
            if self._watch is None:
                self._watch = threading.Thread(target=self._abort_stalled, daemon=True)
                self._watch.start()

    def _end(self, transfer: _Transfer) -> None:
        with self._lock:
            self._running.discard(transfer)

    def _abort_stalled(self) -> None:
        while True:
            with self._lock:
                running = tuple(self._running)
                if not running:
                    self._watch = None
                    return
            for transfer in running:
                transfer.abort_if_stalled()
            time.sleep(TICK_SECONDS)


def _sent(body: Body, transfer: _Transfer, progress: Progress) -> Iterator[bytes]:
    for piece in body.pieces():
        yield bytes(piece)
        transfer.on_moved(len(piece))
        progress.on_sent(len(piece))
    transfer.on_moved()


def _manager(proxy: str, tls: ssl.SSLContext | None) -> urllib3.PoolManager:
    """Return pools of connections, through a proxy if there is one."""
    if proxy:
        parts = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
        secret = basic_auth(unquote(parts.username or ""), unquote(parts.password or ""))
        made: urllib3.PoolManager = urllib3.ProxyManager(
            parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(),
            maxsize=CONNECTIONS_KEPT,
            ssl_context=tls,
            proxy_headers={"Proxy-Authorization": secret} if parts.username else None,
        )
    else:
        made = urllib3.PoolManager(maxsize=CONNECTIONS_KEPT, ssl_context=tls)
    made.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return made


def _tls_context(ca: Path | None) -> ssl.SSLContext:
    try:
        if ca is None:
            return ssl.create_default_context()
        # Read here: OpenSSL would wait for what a pipe gives. Certificates are ASCII, and comments
        # between them may be anything.
        data = read_file(ca, CA_BYTES_MAX).decode("ascii", "ignore")
        if not data:  # for which the system's would be taken
            raise ValueError("an empty file")
        return ssl.create_default_context(cadata=data)
    except (OSError, ValueError) as error:
        raise refusal("AOTC-E770", str(ca), getattr(error, "strerror", "") or str(error)) from error
