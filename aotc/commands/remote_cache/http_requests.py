"""HTTP requests of a remote cache: any status is an answer, and nothing is sent where nobody asked.

Redirects are answers too: to another host they would carry passwords there.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.client import HTTPConnection, HTTPMessage, HTTPResponse, HTTPSConnection
from typing import IO, Protocol, cast
from urllib.error import HTTPError
from urllib.parse import SplitResult, unquote
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    Request,
    build_opener,
)

from aotc.pipeline.cache.bounded_calls import HEAD_BYTES_MAX, Limit, OutageError, Pace

CHUNK_BYTES = 256 * 2**10

SENT_CHUNK_BYTES = 16 * 2**10
"""Small enough to see a slow line get on."""

CONNECT_SECONDS = 2.0
"""For each address of a host: where the first of them is dead, there is time for the next one."""

SILENCE_SECONDS = 60.0
"""Until a request ends that nobody waits for any more; `Bounded` has given it up long before."""

ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


type Read = Callable[[int], bytes]
"""At most so many bytes of an open file; none at the end."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server said. body: empty unless the status is 200."""

    status: int
    reason: str
    headers: Message
    body: bytes = b""

    def found(self) -> bytes | None:
        """What was asked for; None if it is not there. Raises OutageError."""
        if self.status in ABSENT:
            return None
        if self.status != HTTPStatus.OK:
            raise self.outage()
        return self.body

    def outage(self) -> OutageError:
        """The reply as a reason for which nothing could be read or written."""
        return OutageError(f"HTTP {self.status} {self.reason}".rstrip())


class Http:
    """Asks servers."""

    def __init__(self) -> None:
        self._opener = build_opener(_NoRedirects(), _Plain(), _Secure())

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: bytes | None = None,
        *,
        limit: Limit,
        pace: Pace,
    ) -> Reply:
        """Send a request. limit: of the answer. Raises OutageError beyond it, OSError and
        HTTPException if there is no answer.
        """
        sent = {"User-Agent": "aotc", **headers}
        body = None
        if data is not None:
            sent = {"Content-Type": "application/octet-stream", **sent}
            sent["Content-Length"] = str(len(data))
            body = _chunks(data, pace)
        request = Request(url, body, sent, method=method)
        try:
            with cast(_Open, self._opener.open(request, timeout=SILENCE_SECONDS)) as answer:
                pace.answered()
                whole = answer.status == 200 and method == "GET"
                found = read_all(answer.read1, limit, pace) if whole else b""
                return Reply(answer.status, answer.reason, answer.headers, found)
        except HTTPError as error:
            with error:
                pace.answered()
                return Reply(error.code, error.reason, error.headers)


def basic(parts: SplitResult) -> dict[str, str]:
    """The header for a URL's `user:password@` (RFC 7617); none if it has none."""
    if parts.username is None:
        return {}
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(secret).decode()}"}


def without_secrets(parts: SplitResult) -> SplitResult:
    """A URL without its `user:password@`."""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2])


def read_all(read: Read, limit: Limit, pace: Pace) -> bytes:
    """What a file holds, as far as the limit allows. Raises OutageError beyond a number."""
    found = bytearray()
    most = limit if isinstance(limit, int) else None
    while chunk := read(CHUNK_BYTES):
        found += chunk
        pace.arrived(len(chunk))
        if most is None and not isinstance(limit, int) and len(found) >= HEAD_BYTES_MAX:
            most = limit(bytes(found[:HEAD_BYTES_MAX]))
        if most is not None and len(found) > most:
            if isinstance(limit, int):
                raise OutageError(f"an entry of more than {limit} bytes")
            break
    return bytes(found)


def _chunks(data: bytes, pace: Pace) -> Iterator[bytes]:
    for start in range(0, len(data), SENT_CHUNK_BYTES):
        chunk = data[start : start + SENT_CHUNK_BYTES]
        yield chunk
        pace.sent(len(chunk))


class _Open(Protocol):
    status: int
    reason: str
    headers: Message

    def read1(self, size: int, /) -> bytes: ...

    def __enter__(self) -> _Open: ...

    def __exit__(self, *error: object) -> None: ...


class _PlainConnection(HTTPConnection):
    def connect(self) -> None:
        rest, self.timeout = self.timeout, CONNECT_SECONDS
        super().connect()
        self.timeout = rest
        self.sock.settimeout(rest)


class _SecureConnection(_PlainConnection, HTTPSConnection):
    """Its connecting is the other one's within the same time, with the greetings of TLS."""


class _Plain(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_PlainConnection, req)


class _Secure(HTTPSHandler):
    def __init__(self) -> None:
        # One for all connections: it takes long to read the certificates of this host.
        self._ours = ssl.create_default_context()
        super().__init__(context=self._ours)

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req, context=self._ours)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        return None
