"""Blobs behind plain HTTP: GET reads, PUT writes, as WebDAV and many artifact stores have it."""

from urllib.parse import unquote, urlsplit, urlunsplit

from aotc.commands.remote_cache.bounded_calls import Limit, OutageError, Pace, read_entry
from aotc_serve.http_client import Body, HttpClient, basic_auth

SENT_CHUNK_BYTES = 16 * 2**10
"""Small enough to see progress on a slow line within `SECONDS`."""

CONNECT_SECONDS = 2.0
"""For each address of a host: if the first is dead, there is time for the next one."""

STALL_SECONDS = 60.0
"""Until a request ends that nobody waits for any more; `Bounded` has given it up long before."""


class HttpBlobs:
    """Blobs below a URL; its `user:password@` becomes Basic authentication."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        self._headers: dict[str, str] = {}
        if parts.username is not None:
            secret = basic_auth(unquote(parts.username), unquote(parts.password or ""))
            self._headers["Authorization"] = secret
        self._http = HttpClient(stall_seconds=STALL_SECONDS, connect_seconds=CONNECT_SECONDS)

    def read(self, name: str, limit: Limit, pace: Pace) -> bytes | None:
        """Return the bytes under a name, up to the limit; None if there are none."""
        with self._http.request("GET", self._url(name), self._headers, None, pace) as response:
            return read_entry(response, limit)

    def write(self, name: str, data: bytes, pace: Pace) -> None:
        """Put bytes under a name, replacing what was there."""
        headers = {"Content-Type": "application/octet-stream", **self._headers}
        body = Body(data, SENT_CHUNK_BYTES)
        with self._http.request("PUT", self._url(name), headers, body, pace) as response:
            if not 200 <= response.status < 300:
                raise OutageError(response.status_line)

    def _url(self, name: str) -> str:
        return urlunsplit(self._parts._replace(path=f"{self._parts.path.rstrip('/')}/{name}"))
