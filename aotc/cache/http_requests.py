"""HTTP requests of a remote cache: any status is an answer, and nothing is sent where nobody asked.

Redirects are answers too: to another host they would carry passwords there.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.client import HTTPMessage
from typing import IO, Protocol, cast
from urllib.error import HTTPError
from urllib.parse import SplitResult, unquote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from aotc.cache.bounded import HEAD_BYTES_MAX, SECONDS, Limit, Moved, OutageError

CHUNK_BYTES = 256 * 2**10

ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


class Readable(Protocol):
    """Any open file."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


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
    """Asks servers. seconds: without a sign of life, until a request is given up."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._opener = build_opener(_NoRedirects())

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: bytes | None = None,
        *,
        limit: Limit,
        moved: Moved,
    ) -> Reply:
        """Send a request. limit: of the answer. Raises OutageError beyond it, OSError and
        HTTPException if there is no answer.
        """
        sent = {"User-Agent": "aotc", **headers}
        body = None
        if data is not None:
            sent = {"Content-Type": "application/octet-stream", **sent}
            sent["Content-Length"] = str(len(data))
            body = _chunks(data, moved)
        request = Request(url, body, sent, method=method)
        try:
            with cast(_Open, self._opener.open(request, timeout=self._seconds)) as answer:
                whole = answer.status == 200 and method == "GET"
                found = read_all(answer, limit, moved) if whole else b""
                return Reply(answer.status, answer.reason, answer.headers, found)
        except HTTPError as error:
            with error:
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


def read_all(file: Readable, limit: Limit, moved: Moved) -> bytes:
    """What a file holds, as far as the limit allows. Raises OutageError beyond a number."""
    found = bytearray()
    most = limit if isinstance(limit, int) else None
    while chunk := file.read(CHUNK_BYTES):
        found += chunk
        moved(len(chunk))
        if most is None and not isinstance(limit, int) and len(found) >= HEAD_BYTES_MAX:
            most = limit(bytes(found[:HEAD_BYTES_MAX]))
        if most is not None and len(found) > most:
            if isinstance(limit, int):
                raise OutageError(f"an entry of more than {limit} bytes")
            break
    return bytes(found)


def _chunks(data: bytes, moved: Moved) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK_BYTES):
        chunk = data[start : start + CHUNK_BYTES]
        yield chunk
        moved(len(chunk))


class _Open(Readable, Protocol):
    status: int
    reason: str
    headers: Message

    def __enter__(self) -> _Open: ...

    def __exit__(self, *error: object) -> None: ...


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
