"""HTTP with registries: connections that are kept, any status an answer, no redirect followed, and
an end in time of what no longer gets on.
"""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from aotc_runtime.base.errors import refusal

CONNECT_SECONDS = 10.0
"""For each address of a host."""

SILENCE_SECONDS = 30.0
"""Until `PACE_BYTES` more have moved, or an answer has begun or ended."""

COMMIT_SECONDS = 600.0
"""For the answer to the end of an upload: registries hash or copy all of it before that."""

PACE_BYTES = 32 * 2**10

TICK_SECONDS = 0.25

SENT_CHUNK_BYTES = 64 * 2**10
"""Small enough to see a slow line get on."""

REPLAYED_BYTES_MAX = 64 * 2**10

BROKEN = (OSError, HTTPException)
"""What it looks like when a connection cannot be made, breaks, or brings no HTTP."""


class Pace(Protocol):
    """Who is told how a request gets on, in the thread that makes it."""

    def answered(self) -> None:
        """An answer begins."""

    def arrived(self, number: int) -> None:
        """So many bytes have arrived."""

    def sent(self, number: int) -> None:
        """So many bytes have left, or wait in this host for it."""


class Unwatched:
    """Nobody is told."""

    def answered(self) -> None: ...

    def arrived(self, number: int) -> None: ...

    def sent(self, number: int) -> None: ...


UNWATCHED = Unwatched()

type Pieces = Iterator[bytes | bytearray | memoryview]


class Body:
    """What a request sends. pieces: gives it from the start, as often as it is asked."""

    def __init__(self, size: int, pieces: Callable[[], Pieces]) -> None:
        self.size, self.pieces = size, pieces

    @classmethod
    def of(cls, data: bytes | memoryview) -> Body:
        """Bytes in memory, or mapped."""
        view = memoryview(data)

        def pieces() -> Iterator[memoryview]:
            for start in range(0, len(view), SENT_CHUNK_BYTES):
                yield view[start : start + SENT_CHUNK_BYTES]

        return cls(len(view), pieces)


class _Exchange:
    """A request and its answer, as far as the watch sees it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.socket: socket.socket | None = None
        self.stalled = False
        self._since, self._last = 0, time.monotonic()

    def moved(self, number: int = PACE_BYTES) -> None:
        self._since += number
        if self._since >= PACE_BYTES:
            self._since, self._last = 0, time.monotonic()

    def end_if_stalled(self) -> None:
        if time.monotonic() - self._last > self.seconds:
            self.end()

    def end(self) -> None:
        self.stalled = True
        if self.socket is not None:
            with suppress(OSError):  # closed meanwhile
                # Not that of SSLSocket, which would have the rest read without TLS.
                socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


class _Plain(HTTPConnection):
    """A connection that is kept. origin: whose it is, behind a proxy too."""

    def __init__(self, origin: str, place: str, seconds: float) -> None:
        super().__init__(place, timeout=seconds)
        self.origin, self._silence = origin, seconds
        self.watched: _Exchange | None = None

    def connect(self) -> None:
        self.timeout = CONNECT_SECONDS
        super().connect()
        self.sock.settimeout(self._silence)
        self.watch()

    def watch(self) -> None:
        if self.watched is not None:
            self.watched.socket = self.sock


class _Secure(_Plain):
    """With TLS; its greetings are watched, too. name: whose certificate it has to be."""

    default_port = 443

    def __init__(
        self, origin: str, place: str, seconds: float, context: ssl.SSLContext, name: str
    ) -> None:
        super().__init__(origin, place, seconds)
        self._context, self._name = context, name

    def connect(self) -> None:
        super().connect()
        self.sock = self._context.wrap_socket(
            self.sock, server_hostname=self._name, do_handshake_on_connect=False
        )
        self.watch()
        self.sock.do_handshake()


class Answer:
    """What a server says; its body is read by who asked, who then closes it."""

    def __init__(
        self, response: HTTPResponse, exchange: _Exchange, pace: Pace, end: Callable[[bool], None]
    ) -> None:
        self.status, self.reason = response.status, response.reason
        self.headers: Message = response.headers
        self._response, self._exchange, self._pace, self._end = response, exchange, pace, end

    def read(self, most: int) -> bytes:
        """At most so many bytes, as they arrive; none at the end. Raises OSError, HTTPException."""
        data = self._response.read1(most)
        self._exchange.moved(len(data))
        if data:
            self._pace.arrived(len(data))
        elif self._exchange.stalled:
            raise TimeoutError(f"nothing gets on within {self._exchange.seconds:g} s")
        elif self._response.length:
            raise ConnectionError(f"broken off, {self._response.length} bytes before the end")
        return data

    @property
    def size(self) -> int | None:
        """How many bytes the body has, as the server says; None if it does not."""
        length = self.headers.get("Content-Length", "")
        return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None

    def text(self) -> str:
        return f"HTTP {self.status} {self.reason}".rstrip()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._response.length == 0:
            self._response.read()
        self._end(self._response.isclosed())


class Transport:
    """Asks servers; threads may share it. ca: the file of the certificates that count for TLS, in
    place of the system's.  seconds: as `SILENCE_SECONDS`.
    """

    def __init__(self, ca: Path | None = None, seconds: float = SILENCE_SECONDS) -> None:
        self.seconds = seconds
        self.names_authority = ca is not None
        self._context = None if ca is None else _context(ca)
        self._lock = threading.Lock()
        self._idle: dict[str, list[_Plain]] = {}
        self._running: set[_Exchange] = set()
        self._watch: threading.Thread | None = None
        self._stopped = threading.Event()

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Body | None,
        pace: Pace,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request. seconds: instead of the transport's. Raises OSError and HTTPException if
        there is no answer.
        """
        parts = urlsplit(url)
        exchange = _Exchange(self.seconds if seconds is None else seconds)
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        while True:
            connection, is_new = self._connection(f"{parts.scheme}://{parts.netloc}")
            self._begin(exchange, connection)
            try:
                response = _send(connection, method, target, headers, body, pace, exchange)
                if exchange.stalled:  # http.client takes headers that end early for all of them
                    raise TimeoutError
            except BaseException as error:
                self._finish(exchange, connection, keep=False)
                if self._stopped.is_set():
                    raise InterruptedError("stopped") from error
                if exchange.stalled:
                    raise TimeoutError(f"no answer within {exchange.seconds:g} s") from error
                # A server may have closed a connection that nobody used meanwhile. Who sends much
                # has to ask first how much of it has arrived.
                is_large = body is not None and body.size > REPLAYED_BYTES_MAX
                if is_new or is_large or not isinstance(error, BROKEN):
                    raise
                continue
            pace.answered()
            exchange.moved()

            def end(
                is_read: bool,
                connection: _Plain = connection,
                response: HTTPResponse = response,
            ) -> None:
                self._finish(exchange, connection, keep=is_read and not response.will_close)

            return Answer(response, exchange, pace, end)

    def stop(self) -> None:
        """End what runs, and begin nothing."""
        self._stopped.set()
        with self._lock:
            running, idle = tuple(self._running), [c for each in self._idle.values() for c in each]
            self._idle.clear()
        for exchange in running:
            exchange.end()
        for connection in idle:
            connection.close()

    def wait(self, seconds: float) -> None:
        """Let time pass. Raises InterruptedError once it is stopped."""
        if self._stopped.wait(seconds):
            raise InterruptedError("stopped")

    def _connection(self, origin: str) -> tuple[_Plain, bool]:
        with self._lock:
            if self._stopped.is_set():
                raise InterruptedError("stopped")
            if idle := self._idle.get(origin):
                return idle.pop(), False
            if origin.startswith("https:") and self._context is None:
                # One for all connections: it takes long to read the certificates of this host.
                self._context = _context(None)
        return _open(origin, self._context, self.seconds), True

    def _begin(self, exchange: _Exchange, connection: _Plain) -> None:
        connection.watched = exchange
        if connection.sock is not None:
            connection.watch()
        exchange.moved()
        with self._lock:
            self._running.add(exchange)
            if self._watch is None:
                self._watch = threading.Thread(target=self._look, daemon=True, name="aotc-http")
                self._watch.start()

    def _finish(self, exchange: _Exchange, connection: _Plain, *, keep: bool) -> None:
        with self._lock:
            self._running.discard(exchange)
            if keep and not exchange.stalled and not self._stopped.is_set():
                connection.watched = None
                self._idle.setdefault(connection.origin, []).append(connection)
                return
        connection.close()

    def _look(self) -> None:
        while True:
            with self._lock:
                running = tuple(self._running)
                if not running:
                    self._watch = None
                    return
            for exchange in running:
                exchange.end_if_stalled()
            time.sleep(TICK_SECONDS)


def _send(
    connection: _Plain,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: Body | None,
    pace: Pace,
    exchange: _Exchange,
) -> HTTPResponse:
    sent = {"User-Agent": "aotc", "Accept-Encoding": "identity", **headers}

    def pieces(body: Body) -> Pieces:
        for piece in body.pieces():
            yield piece
            exchange.moved(len(piece))
            pace.sent(len(piece))

    if body is not None:
        sent["Content-Length"] = str(body.size)
    try:
        connection.request(method, target, pieces(body) if body else None, sent)
    except (BrokenPipeError, ConnectionResetError):
        # A server that wants no more may have said why, and then closed.
        if connection.sock is None:
            raise
    exchange.moved()
    return connection.getresponse()


def _open(origin: str, context: ssl.SSLContext | None, seconds: float) -> _Plain:
    parts = urlsplit(origin)
    if context is None or parts.scheme == "http":
        # Directly: without TLS, a proxy would read along.
        return _Plain(origin, parts.netloc, seconds)
    name = parts.hostname or ""
    proxy = "" if proxy_bypass(name) else getproxies().get("https", "")
    if not proxy:
        return _Secure(origin, parts.netloc, seconds, context, name)
    there = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    place = f"{there.hostname or ''}:{there.port or 80}"
    connection = _Secure(origin, place, seconds, context, name)
    secret = f"{unquote(there.username or '')}:{unquote(there.password or '')}".encode()
    given = {"Proxy-Authorization": f"Basic {base64.b64encode(secret).decode()}"}
    connection.set_tunnel(name, parts.port or 443, given if there.username else {})
    return connection


def _context(ca: Path | None) -> ssl.SSLContext:
    """Raises RegistryError (AOTC-E770)."""
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise refusal("AOTC-E770", str(ca), getattr(error, "strerror", "") or str(error)) from error
