"""Blobs behind plain HTTP: GET reads, PUT writes, as WebDAV and many artifact stores have it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPMessage
from typing import IO, Protocol, cast
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from aotc.cache.bounded import SECONDS, Moved, OutageError

CHUNK_BYTES = 256 * 2**10

ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


class Readable(Protocol):
    """Any open file."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


class Answer(Readable, Protocol):
    """An answer that can be read."""

    def __enter__(self) -> Answer: ...

    def __exit__(self, *error: object) -> None: ...


class HttpBlobs:
    """Blobs below a URL; its `user:password@` becomes Basic authentication (RFC 7617)."""

    def __init__(self, url: str, seconds: float = SECONDS) -> None:
        parts = urlsplit(url)
        self._parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        self._seconds = seconds
        self._headers = {"User-Agent": "aotc"}
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(secret).decode()}"
        self._opener = build_opener(_NoRedirects())

    def read(self, name: str, limit: int, moved: Moved) -> bytes | None:
        """As `Blobs`."""
        try:
            with self._open(Request(self._url(name), headers=self._headers)) as answer:
                return read_all(answer, limit, moved)
        except HTTPError as error:
            with error:
                if error.code in ABSENT:
                    return None
                raise OutageError(f"HTTP {error.code} {error.reason}") from error

    def write(self, name: str, data: bytes, moved: Moved) -> None:
        """As `Blobs`."""
        headers = {
            **self._headers,
            "Content-Length": str(len(data)),
            "Content-Type": "application/octet-stream",
        }
        request = Request(self._url(name), _chunks(data, moved), headers, method="PUT")
        try:
            with self._open(request):
                pass
        except HTTPError as error:
            with error:
                raise OutageError(f"HTTP {error.code} {error.reason}") from error

    def _open(self, request: Request) -> Answer:
        return cast(Answer, self._opener.open(request, timeout=self._seconds))

    def _url(self, name: str) -> str:
        return urlunsplit(self._parts._replace(path=f"{self._parts.path.rstrip('/')}/{name}"))


def read_all(file: Readable, limit: int, moved: Moved) -> bytes:
    """What a file holds. Raises OutageError if that is more than the limit, in bytes."""
    found = bytearray()
    while chunk := file.read(CHUNK_BYTES):
        found += chunk
        moved(len(chunk))
        if len(found) > limit:
            raise OutageError(f"an entry of more than {limit} bytes")
    return bytes(found)


def _chunks(data: bytes, moved: Moved) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK_BYTES):
        chunk = data[start : start + CHUNK_BYTES]
        yield chunk
        moved(len(chunk))


class _NoRedirects(HTTPRedirectHandler):
    """To another host they would carry the password there."""

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
