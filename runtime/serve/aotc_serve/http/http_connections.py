"""HTTP connections with limits that uvicorn lacks.

They limit the number of connections, the time and size of headers, and the time in which a client
reads its answer. Small quick requests are answered as soon as they are read, without a task.
Upgrades to other protocols are ignored (RFC 9110, 7.8). At the limit of connections, the one is
closed that has waited longest for a complete request, so that idle clients keep no others out.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

import httptools
import msgspec
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from aotc_runtime.base.errors import AotcError, refusal
from aotc_serve.inference.error_statuses import error_document
from aotc_serve.inference.request_memory import COSTS, Claim, Memory
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.inference.server_options import Limits

HEADER_BYTES_MAX, HEADER_FIELDS_MAX = 2**16, 128

REQUESTS_MAX = 64
"""Requests of a connection that may wait behind the one that is answered."""

HEADER_BYTES_FREE = 2**12
"""Bytes of a header that are counted with its connection."""

AT_ONCE_BYTES_MAX = 2**15
"""The most that a body has which is answered as soon as it is read, and the answer to it."""

type Headers = list[tuple[bytes, bytes]]

type AtOnce = Callable[[bytes, Headers, bytes], Response | None]
"""Answers a request of this address, these headers and body; None if the application has to."""

FULL, LARGE = b"503 Service Unavailable", b"431 Request Header Fields Too Large"
BAD = b"400 Bad Request"

CAUSES = {
    "AOTC-E761": "request-is-not-http",
    "AOTC-E763": "header-exceeds-the-size-limit",
    "AOTC-E764": "request-header-timed-out",
}
"""Causes of the errors here, by code."""

TOO_MANY = "too-many-connections"

ESTABLISHED = b"\1"
"""State of a TCP connection that neither side has ended (linux/tcp_states.h)."""

NO_MEMORY = "server-is-out-of-request-memory"


class _RefusedError(Exception):
    """Stops the parser: the connection was refused, and nothing behind that is read."""


class _Transport:
    """A transport that takes nothing once it is closed, as asyncio's does.

    uvloop's raises then, which uvicorn would log with a traceback: clients reset connections while
    they are answered.
    """

    __slots__ = ("_transport",)

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


def without_upgrade(parser: httptools.HttpRequestParser, url: bytes, headers: Headers) -> bytes:
    """Return the header of a request, as one that asks for no other protocol has it."""
    version = parser.get_http_version().encode("ascii")
    lines = [b"%s %s HTTP/%s" % (parser.get_method(), url, version)]
    for name, value in headers:
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            value = b", ".join(token for token in tokens if token.lower() != b"upgrade")
        if name != b"upgrade":
            lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", b""])


def bounded_protocol(
    limits: Limits, metrics: Metrics, memory: Memory, at_once: AtOnce | None = None
) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with these limits.

    `at_once` is called before the application.
    """
    admitted: set[Bounded] = set()
    # Those without a whole request that is not answered yet, the longest first.
    waiting: dict[Bounded, None] = {}

    class Bounded(HttpToolsProtocol):
        """One connection."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._given, self._is_gone, self._is_full = (args, kwargs), True, True

        def _initialize(self) -> None:
            super().__init__(*self._given[0], **self._given[1])
            self._deadline: asyncio.TimerHandle | None = None
            self._writing: asyncio.TimerHandle | None = None
            self._header_bytes = self._silent_bytes = self._header_fields = 0
            self._is_full = self._has_begun = self._is_ending = False
            self._is_whole = self._is_gone = False
            self._header_claim = Claim(memory, is_waiting=True)
            self._queue_claim = Claim(memory, is_waiting=True)
            # What the requests hold that wait behind another one.
            self._queued: deque[int] = deque()
            self._dropped = 0
            # Whether a request has been answered here, or is being.
            self.was_asked = False
            # The body, as far as it is there, of a request that nobody has been asked about yet.
            self._held: list[bytes] | None = None
            self._was_at_once = False
            # The header of a request that asks for another protocol, without that.
            self._plain = b""
            # The request that the application answers; `cycle` is the last one that was read.
            self._answered: RequestResponseCycle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            sock = transport.get_extra_info("socket")
            if sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != ESTABLISHED:
                # What is done for a client that has gone delays all others in the queue.
                transport.abort()
                return
            self._initialize()
            super().connection_made(_Transport(transport))  # type: ignore[arg-type]
            if len(admitted) >= limits.connections:
                if not waiting:
                    self._refuse_full()
                    return
                next(iter(waiting)).evict()
            try:
                memory.connect()
            except AotcError:
                self._refuse(FULL, "AOTC-E766", "server", "one more connection", "", NO_MEMORY)
                return
            admitted.add(self)
            waiting[self] = None
            self._start_header()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._is_gone:
                return
            self._leave()
            self._header_claim.close()
            self._queue_claim.close()
            for timer in (self._deadline, self._writing):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)
            # uvicorn tells the last request alone, and one before it would wait for its turn and
            # be answered for nobody.
            answered = self._answered
            if answered is not None and not answered.response_complete:
                answered.disconnected = True
                answered.message_event.set()
            # They refer to this connection: without references, no garbage collection is needed.
            self.cycle = self._answered = None  # type: ignore[assignment]
            self.pipeline.clear()

        def _leave(self) -> None:
            waiting.pop(self, None)
            if self in admitted:
                admitted.discard(self)
                memory.disconnect()

        def evict(self) -> None:
            """Close the connection, so that another one can be taken."""
            self._leave()
            if not self.was_asked:
                self._refuse_full()
                return
            self._is_full = True
            metrics.count_refused("AOTC-E766")
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()
            else:
                self.transport.abort()

        def _refuse_full(self) -> None:
            expected = f"at most {limits.connections} connections"
            self._refuse(FULL, "AOTC-E766", "connection", "one more", expected, TOO_MANY)

        def _wait(self) -> None:
            """Note that nothing is being answered, unless something is."""
            is_over = self.cycle is None or self.cycle.response_complete
            if self in admitted and not self.pipeline and (is_over or not self._is_whole):
                waiting[self] = None

        def data_received(self, data: bytes) -> None:
            if self._is_full:
                return
            self._silent_bytes += len(data)
            self._was_at_once = False
            self._unset_keepalive_if_required()
            self._parse(data)
            if self._held is not None:
                # The rest of it is on its way.
                self._ask(self.app)
            if self._has_begun:
                self._start_header()
            # The parser gathers what belongs together, however long that is, before it tells.
            if self._silent_bytes > HEADER_BYTES_MAX:
                self._count(self._silent_bytes)
            pending = self._header_bytes + self._silent_bytes
            if pending > HEADER_BYTES_FREE and not self._is_full:
                self._hold(self._header_claim, COSTS.header * pending)
            if self._is_ending:
                self.shutdown()

        def _hold(self, claim: Claim, size: int) -> None:
            try:
                if size > claim.total:
                    claim.resize(size)
            except AotcError:
                self._refuse(FULL, "AOTC-E766", "server", "a large header", "", NO_MEMORY)

        def _parse(self, data: bytes) -> None:
            while data:
                try:
                    self.parser.feed_data(data)
                except httptools.HttpParserError:
                    if self._is_full:
                        return
                    self._refuse(BAD, "AOTC-E761", "request", "", "a request of HTTP/1.1")
                except httptools.HttpParserUpgrade as asked:
                    # The parser stops behind the header, whatever follows.
                    plain, self._plain = self._plain, b""
                    if plain:
                        data = plain + data[asked.args[0] :]
                        self.parser = httptools.HttpRequestParser(self)
                        continue
                return

        def on_message_begin(self) -> None:
            self._header_bytes = self._header_fields = 0
            self._header_claim.close()
            self._has_begun, self._is_whole = True, False
            if len(self.pipeline) >= REQUESTS_MAX:
                expected = f"at most {REQUESTS_MAX} pipelined requests"
                self._refuse(FULL, "AOTC-E766", "connection", "more", expected)
            if self._is_full:
                raise _RefusedError
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._silent_bytes = 0
            self._header_bytes += len(name) + len(value) + 4
            if self._header_bytes > HEADER_BYTES_MAX:
                self._count(0)
            self._header_fields += 1
            if self._header_fields > HEADER_FIELDS_MAX:
                expected = f"at most {HEADER_FIELDS_MAX} header fields"
                self._refuse(LARGE, "AOTC-E763", "header", "more", expected)
            if self._is_full:
                raise _RefusedError
            name = name.lower()
            if name == b"expect":
                super().on_header(name, value)
            else:
                self.headers.append((name, value))

        def on_headers_complete(self) -> None:
            self._silent_bytes = 0
            self.was_asked = True
            if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
                self._plain = without_upgrade(self.parser, self.url, self.headers)
                return
            self._has_begun = False
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
            if self._is_full:
                return
            if self.cycle is not None and not self.cycle.response_complete:
                cost = COSTS.pipelined + COSTS.header * self._header_bytes
                self._queued.append(cost)
                self._hold(self._queue_claim, self._queue_claim.total + cost)
                if self._is_full:
                    return
            if self._may_be_at_once():
                self._held = []
            else:
                self._begin_cycle()

        def on_message_complete(self) -> None:
            if self._is_full or self._plain:
                return
            self._is_whole = True
            waiting.pop(self, None)
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
            if self._held is None:
                super().on_message_complete()
            else:
                self._answer_at_once(b"".join(self._held))

        def on_body(self, body: bytes) -> None:
            self._silent_bytes = 0
            if self._is_full:
                return
            if self._held is not None:
                self._held.append(body)
                return
            if self.cycle.response_complete:
                self._dropped += len(body)
                if self._dropped > limits.body:
                    self.transport.close()
            super().on_body(body)

        def _may_be_at_once(self) -> bool:
            """Return whether the request needs nothing of the application's task.

            The task waits for other requests, sends `100 Continue` and closes connections. Each
            client gets one immediate answer before others have their turn.
            """
            parser = self.parser
            return (
                at_once is not None
                and not self._was_at_once
                and (self.cycle is None or self.cycle.response_complete)
                and parser.get_method() == b"POST"
                and parser.get_http_version() == "1.1"
                and parser.should_keep_alive()
                and not parser.should_upgrade()
                and not self.expect_100_continue
                and not self.flow.write_paused
            )

        def _answer_at_once(self, body: bytes) -> None:
            assert at_once is not None
            response = None
            if len(body) <= AT_ONCE_BYTES_MAX:
                response = at_once(self.url, self.headers, body)
            if response is None:
                self._ask(self.app)
                super().on_message_complete()
                return
            self._was_at_once = True
            if response.status_code != 200 or len(response.body) > AT_ONCE_BYTES_MAX:
                self._ask(response)
                super().on_message_complete()
                return
            self._held = None
            lines = [b"HTTP/1.1 200 OK"]
            for name, value in (*self.server_state.default_headers, *response.raw_headers):
                lines.append(name + b": " + value)
            lines += [b"", bytes(response.body)]
            self.transport.write(b"\r\n".join(lines))
            self.on_response_complete()

        def _ask(self, app: Any) -> None:
            """Pass the held request to the application, or answer it in its place."""
            held, self._held = self._held or (), None
            if self._is_full:
                return
            usual, self.app = self.app, app
            self._begin_cycle()
            self.app = usual
            for body in held:
                super().on_body(body)

        def _begin_cycle(self) -> None:
            super().on_headers_complete()
            if not self.pipeline:
                self._answered = self.cycle

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._writing is None:
                self._writing = self.loop.call_later(limits.write_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            if self._writing is not None:
                self._writing.cancel()
                self._writing = None
            super().resume_writing()

        def on_response_complete(self) -> None:
            self._answered = self.pipeline[-1][0] if self.pipeline else None
            super().on_response_complete()
            if self._queued:
                self._queue_claim.give_back(min(self._queued.popleft(), self._queue_claim.total))
            self._wait()
            if self in waiting and not self._is_whole and self._deadline is None:
                # It was answered before its body was there. Clients read an answer only when they
                # have sent everything, so the rest is taken, for a while, and dropped.
                self._dropped = 0
                later = self.loop.call_later(limits.header_seconds, self.transport.close)
                self._deadline = later
            if self._is_ending:
                self.shutdown()

        def shutdown(self) -> None:
            # A request that has begun is answered; the rest of its header may be on the way.
            self._is_ending = True
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
            self._refuse(
                b"408 Request Timeout", "AOTC-E764", "header", "an incomplete header", expected
            )

        def _count(self, size: int) -> None:
            self._silent_bytes = 0
            self._header_bytes += size + 4
            if self._header_bytes > HEADER_BYTES_MAX and not self._is_full:
                expected = f"a header of at most {HEADER_BYTES_MAX} bytes"
                self._refuse(LARGE, "AOTC-E763", "header", "a larger header", expected)

        def _refuse(
            self, status: bytes, code: str, where: str, found: str, expected: str, cause: str = ""
        ) -> None:
            """Answer without asking the application, and close."""
            if self._is_full:
                return
            self._is_full = True
            metrics.count_refused(code)
            cause = cause or CAUSES.get(code, "")
            error = refusal(code, where, found, cause=cause, expected=expected)
            body = msgspec.json.encode(error_document(error))
            head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            more = b"retry-after: 1\r\n" if code == "AOTC-E766" else b""
            text = head % (status, len(body)) + more + b"connection: close\r\n\r\n" + body
            if not self.transport.is_closing():
                self.transport.write(text)
                self.transport.close()

    return Bounded
