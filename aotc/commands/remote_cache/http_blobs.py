"""Blobs behind plain HTTP: GET reads, PUT writes, as WebDAV and many artifact stores have it."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from aotc.commands.remote_cache.http_requests import Http, basic, without_secrets
from aotc.pipeline.cache.bounded_calls import SECONDS, Limit, Pace

REPLY_BYTES_MAX = 2**16


class HttpBlobs:
    """Blobs below a URL; its `user:password@` becomes Basic authentication."""

    seconds = SECONDS

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._parts, self._headers = without_secrets(parts), basic(parts)
        self._http = Http()

    def read(self, name: str, limit: Limit, pace: Pace) -> bytes | None:
        """The bytes under a name, up to the limit; None if there are none."""
        url = self._url(name)
        return self._http.ask("GET", url, self._headers, limit=limit, pace=pace).found()

    def write(self, name: str, data: bytes, pace: Pace) -> None:
        """Put bytes under a name, replacing what was there."""
        reply = self._http.ask(
            "PUT", self._url(name), self._headers, data, limit=REPLY_BYTES_MAX, pace=pace
        )
        if not 200 <= reply.status < 300:
            raise reply.outage()

    def _url(self, name: str) -> str:
        return urlunsplit(self._parts._replace(path=f"{self._parts.path.rstrip('/')}/{name}"))
