"""Blobs behind plain HTTP: GET reads, PUT writes, as WebDAV and many artifact stores have it."""

from urllib.parse import unquote, urlsplit, urlunsplit

from aotc.commands.remote_cache.bounded_reads import (
    CONNECT_SECONDS,
    SECONDS,
    Limit,
    OutageError,
    read_entry,
    unseen_seconds,
)
from aotc_serve.http_client import NO_PROGRESS, Body, HttpClient, basic_auth


class HttpBlobs:
    """Blobs below a URL; its `user:password@` becomes Basic authentication."""

    def __init__(self, url: str, seconds: float = SECONDS) -> None:
        parts = urlsplit(url)
        self._parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        self._headers: dict[str, str] = {}
        if parts.username is not None:
            secret = basic_auth(unquote(parts.username), unquote(parts.password or ""))
            self._headers["Authorization"] = secret
        self._http = HttpClient(stall_seconds=seconds, connect_seconds=CONNECT_SECONDS)

    def read(self, name: str, limit: Limit) -> bytes | None:
        """Return the bytes under a name, up to the limit; None if there are none."""
        with self._http.request("GET", self._url(name), self._headers) as response:
            return read_entry(response, limit)

    def write(self, name: str, data: bytes) -> None:
        """Put bytes under a name, replacing what was there."""
        headers = {"Content-Type": "application/octet-stream", **self._headers}
        unseen = unseen_seconds(len(data))
        seconds = self._http.stall_seconds + unseen
        url, body = self._url(name), Body(data)
        with self._http.request("PUT", url, headers, body, NO_PROGRESS, seconds) as response:
            if not 200 <= response.status < 300:
                raise OutageError(response.status_line)

    def close(self) -> None:
        """End what runs, and begin nothing."""
        self._http.close()

    def _url(self, name: str) -> str:
        return urlunsplit(self._parts._replace(path=f"{self._parts.path.rstrip('/')}/{name}"))
