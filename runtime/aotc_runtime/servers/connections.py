"""Connections of HTTP with limits that uvicorn has none for: how many there are, how long and how
large a header may be, and how long a client may leave its answer lying.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from aotc_runtime.errors import refusal
from aotc_runtime.servers.metrics import Metrics
from aotc_runtime.servers.options import Limits
from aotc_runtime.servers.statuses import error_document

HEADER_BYTES_MAX = 2**16

FULL, LARGE = b"503 Service Unavailable", b"431 Request Header Fields Too Large"

HINTS = {
    "AOTC-E761": "send what HTTP/1.1 says",
    "AOTC-E763": "send fewer or shorter header fields",
    "AOTC-E764": "send it faster, or start the server with a longer --header-seconds",
    "AOTC-E766": "close connections, or start the server with a higher --max-connections",
}


def bounded(limits: Limits, metrics: Metrics) -> type[asyncio.Protocol]:
    """uvicorn's protocol, within these limits."""

    class Bounded(HttpToolsProtocol):
        """One connection."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._deadline: asyncio.TimerHandle | None = None
            self._writing: asyncio.TimerHandle | None = None
            self._header_bytes = self._silent_bytes = 0
            self._is_full = self._has_begun = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self._is_full = len(self.connections) >= limits.connections
            super().connection_made(transport)
            if self._is_full:
                expected = f"at most {limits.connections} connections"
                self._refuse(FULL, "AOTC-E766", "connection", "one more", expected)
            else:
                self._start_header()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._deadline, self._writing):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._is_full:
                return
            self._silent_bytes += len(data)
            super().data_received(data)
            if self._has_begun:
                self._start_header()
            # The parser gathers what belongs together, however long that is, before it tells.
            if self._silent_bytes > HEADER_BYTES_MAX:
                self._count(self._silent_bytes)

        def on_message_begin(self) -> None:
            self._header_bytes = 0
            self._has_begun = True
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value))
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._silent_bytes = 0
            self._has_begun = False
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
            if not self._is_full:
                super().on_headers_complete()

        def on_message_complete(self) -> None:
            if not self._is_full:
                super().on_message_complete()

        def on_body(self, body: bytes) -> None:
            self._silent_bytes = 0
            if not self._is_full:
                super().on_body(body)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._writing is None:
                self._writing = self.loop.call_later(limits.write_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            if self._writing is not None:
                self._writing.cancel()
                self._writing = None
            super().resume_writing()

        def shutdown(self) -> None:
            # A request whose header is on the way is answered, as one whose body is.
            if not self._has_begun:
                super().shutdown()

        def timeout_keep_alive_handler(self) -> None:
            # What is left in the buffer, nobody has taken for so long.
            if self.transport.get_write_buffer_size():
                self.transport.abort()
            super().timeout_keep_alive_handler()

        def _start_header(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(limits.header_seconds, self._late)

        def _late(self) -> None:
            self._deadline = None
            expected = f"a header within {limits.header_seconds:g} s"
            self._refuse(b"408 Request Timeout", "AOTC-E764", "header", "a part of it", expected)

        def _count(self, size: int) -> None:
            self._silent_bytes = 0
            self._header_bytes += size + 4
            if self._header_bytes > HEADER_BYTES_MAX and not self._is_full:
                expected = f"a header of at most {HEADER_BYTES_MAX} bytes"
                self._refuse(LARGE, "AOTC-E763", "header", "a larger one", expected)

        def send_400_response(self, msg: str) -> None:
            self._refuse(b"400 Bad Request", "AOTC-E761", "request", msg, "a request of HTTP/1.1")

        def _refuse(self, status: bytes, code: str, where: str, found: str, expected: str) -> None:
            """Answer without asking the application, and close."""
            self._is_full = True
            metrics.turned_away(code)
            error = refusal(code, where, found, expected=expected, hint=HINTS.get(code, ""))
            body = msgspec.json.encode(error_document(error))
            head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            more = b"retry-after: 1\r\n" if code == "AOTC-E766" else b""
            text = head % (status, len(body)) + more + b"connection: close\r\n\r\n" + body
            if not self.transport.is_closing():
                self.transport.write(text)
                self.transport.close()

    return Bounded
