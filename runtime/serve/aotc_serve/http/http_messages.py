"""Requests and responses of HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aotc_runtime.base.errors import AotcError, refusal
from aotc_serve.inference.error_statuses import error_document, let_go, statuses_of
from aotc_serve.inference.protocol_tensors import invalid_request
from aotc_serve.inference.request_memory import Claim

HEADER_LENGTH = b"inference-header-content-length"

SMALL = 2**15
"""Bytes of an answer that is sent at once, and that nobody counts."""

GATHERED, TOGETHER = 2**17, 2**20
"""Bytes of a part that is copied rather than sent on its own, and of what is copied together. Each
that is sent is a write of its own, which wakes the client, and a turn of the event loop.
"""


class Parts(Response):
    """A response of a JSON header and tensors, of which large ones are not copied.

    `claim` holds their memory until the client has received a large response.
    """

    def __init__(self, header: bytes, parts: list[memoryview], claim: Claim) -> None:
        length = len(header) + sum(map(len, parts))
        self.status_code, self.background = 200, None
        self.raw_headers = [
            (b"content-length", str(length).encode()),
            (b"content-type", b"application/octet-stream" if parts else b"application/json"),
        ]
        if parts:
            self.raw_headers.append((HEADER_LENGTH, str(len(header)).encode()))
        self._chunks = [header] if not parts else [*_gather([header, *parts])]
        self._claim = claim
        self._is_small = length <= SMALL
        self.body = self._chunks[0] if self._is_small else b""
        claim.resize(0 if self._is_small else length)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response (ASGI)."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        if self._is_small:
            await send({"type": "http.response.body", "body": self._chunks[0]})
            return
        try:
            for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            # Which waits until the client has taken nearly everything before it.
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._claim.close()


def _gather(parts: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Yield the chunks to write, with small neighbours combined."""
    together: list[bytes | memoryview] = []
    size = 0
    for part in parts:
        if together and (len(part) > GATHERED or size + len(part) > TOGETHER):
            yield b"".join(together)
            together, size = [], 0
        if len(part) > GATHERED:
            yield part
        else:
            together.append(part)
            size += len(part)
    if together:
        yield b"".join(together)


def encode_json(content: Any, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def error_response(error: AotcError) -> Response:
    """Return the response to a refused request; the error is let go of."""
    let_go(error)
    status = statuses_of(error)[0]
    response = encode_json(error_document(error), status)
    if status == 503:
        response.headers["retry-after"] = "1"
    if error.code == "AOTC-E764":
        # Its body is still on the way; nobody reads it.
        response.headers["connection"] = "close"
    return response


def match_infer_path(path: str) -> tuple[str, str] | None:
    """Return the model and the version, or "", of an inference request; None for another path."""
    if not (path.startswith("/v2/models/") and path.endswith("/infer")):
        return None
    parts = path[len("/v2/models/") : -len("/infer")].split("/")
    if len(parts) == 3 and parts[1] == "versions" and parts[2]:
        del parts[1]
    elif len(parts) != 1:
        return None
    return (parts[0], parts[1] if len(parts) == 2 else "") if parts[0] else None


def header_length(given: Sequence[tuple[bytes, bytes]]) -> int | None:
    """Return the length of the JSON before binary data, or None (AOTC-E761, E767)."""
    headers = dict(given)
    encoding = headers.get(b"content-encoding", b"identity")
    if encoding != b"identity":
        found, cause = encoding[:100].decode("latin-1"), "unsupported-content-encoding"
        raise refusal("AOTC-E767", "request Content-Encoding", found, cause=cause)
    text = headers.get(HEADER_LENGTH)
    if text is None:
        return None
    if not (text.isdigit() and len(text) < 12):
        found = text[:100].decode("latin-1")
        raise invalid_request("Inference-Header-Content-Length", found, "a number of bytes")
    return int(text)


def split(data: memoryview, length: int | None) -> tuple[memoryview, memoryview]:
    """Return a request's JSON and the binary data behind it. Raises ServerError (AOTC-E761)."""
    if length is None:
        return data, data[:0]
    if length > len(data):
        where, expected = "Inference-Header-Content-Length", f"at most {len(data)} bytes"
        raise invalid_request(where, str(length), expected)
    return data[:length], data[length:]


async def no_route(request: Request, error: Exception) -> Response:
    """Return a 404 or 405 response."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    found = f"{request.method} {request.url.path[:200]}"
    cause = "url-path-takes-another-method" if status == 405 else "url-path-not-found"
    return encode_json(error_document(refusal("AOTC-E762", "server", found, cause=cause)), status)
