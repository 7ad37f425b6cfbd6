"""Requests that a connection answers at once, and those of the application."""

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from waiting import SECONDS, until

from aotc_serve.http.http_app import _while_connected
from aotc_serve.http.http_connections import AT_ONCE_BYTES_MAX, _Transport, bounded_protocol
from aotc_serve.inference.request_memory import Memory
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.inference.server_options import Limits

AT_ONCE, BY_APPLICATION = b"at once", b"in turn"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(BY_APPLICATION)(scope, receive, send)


def at_once(url: bytes, headers: Any, body: bytes) -> Response:
    return Response(AT_ONCE)


@contextmanager
def listening(
    app: ASGIApp = application, sockets: list[socket.socket] | None = None
) -> Iterator[int]:
    """The port of a server whose answers say where they were made."""
    protocol = bounded_protocol(Limits(), Metrics(), Memory(2**30), at_once)
    config = uvicorn.Config(app, port=0, http=protocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=(sockets,))
    thread.start()
    try:
        until(lambda: server.started, "the server")
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(SECONDS)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with listening() as found:
        yield found


def request(*more: str, method: str = "POST", version: str = "1.1", body: bytes = b"x") -> bytes:
    lines = [f"{method} / HTTP/{version}", "host: x", f"content-length: {len(body)}", *more]
    return "\r\n".join([*lines, "", ""]).encode() + body


def bodies(connection: socket.socket, count: int) -> list[bytes]:
    """Of so many answers; both kinds are of one length."""
    text, found = b"", []
    while len(found) < count:
        part = connection.recv(65536)
        assert part, f"closed after {text!r}"
        text += part
        found = [
            rest[: len(AT_ONCE)]
            for rest in text.split(b"\r\n\r\n")[1:]
            if len(rest) >= len(AT_ONCE)
        ]
    return found


def answered(port: int, *sent: bytes) -> list[bytes]:
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        found = []
        for each in sent:
            connection.sendall(each)
            found += bodies(connection, 1)
        return found


def test_whole_requests_are_answered_at_once_one_after_another(port: int) -> None:
    assert answered(port, request(), request(), request()) == [AT_ONCE] * 3


@pytest.mark.parametrize(
    "sent",
    [
        request(method="PUT"),
        request(version="1.0"),
        request("connection: keep-alive", version="1.0"),
        request("connection: close"),
        request(body=b"x" * (AT_ONCE_BYTES_MAX + 1)),
    ],
    ids=["method", "version", "version-kept", "close", "large"],
)
def test_what_needs_more_than_an_answer_is_the_applications(port: int, sent: bytes) -> None:
    assert answered(port, sent) == [BY_APPLICATION]


def test_a_client_that_sends_many_together_has_one_answer_at_once(port: int) -> None:
    """The others wait their turn, so that other clients have theirs."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        for _ in range(2):
            connection.sendall(request() * 5)
            assert bodies(connection, 5) == [AT_ONCE] + [BY_APPLICATION] * 4


def test_a_body_that_comes_later_is_the_applications_to_wait_for(port: int) -> None:
    """This one waits for none: its answer comes before the rest was sent."""
    assert answered(port, request()[:-1]) == [BY_APPLICATION]


def test_a_client_that_ends_before_it_is_accepted_is_not_answered() -> None:
    """Thousands of them would delay the client behind them in the queue."""
    queue = socket.create_server(("127.0.0.1", 0))
    with queue, socket.create_connection(queue.getsockname(), SECONDS) as client:
        client.sendall(request())
        client.shutdown(socket.SHUT_WR)
        with listening(sockets=[queue]), pytest.raises(ConnectionResetError):
            client.recv(65536)


class Closing(asyncio.Transport):
    """A transport of uvloop's, which raises where it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed, self.written = False, b""

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_closed:
            raise RuntimeError("the handler is closed")
        self.written += data


def test_an_answer_to_a_connection_that_was_reset_raises_nothing() -> None:
    """uvicorn would log it with a traceback, once for each."""
    closing = Closing()
    transport = _Transport(closing)
    transport.write(b"one")
    closing.is_closed = True
    transport.write(b"two")
    assert (closing.written, transport.is_closing()) == (b"one", True)


@pytest.mark.parametrize("goes", [False, True])
def test_a_client_that_goes_ends_the_request_that_waits_for_a_thread(goes: bool) -> None:
    ended = []

    async def answering() -> str:
        try:
            await asyncio.sleep(SECONDS if goes else 0)
        finally:
            ended.append("answer")
        return "answer"

    async def receive() -> dict[str, Any]:
        try:
            await asyncio.sleep(0 if goes else SECONDS)
        finally:
            ended.append("receive")
        return {"type": "http.disconnect"}

    async def main() -> str:
        try:
            return await _while_connected(Request({"type": "http"}, receive), answering())
        except ClientDisconnect:
            return "gone"
        finally:
            await asyncio.sleep(0)
            assert sorted(ended) == ["answer", "receive"]

    assert asyncio.run(main()) == ("gone" if goes else "answer")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_client_that_goes_ends_the_first_of_its_requests(count: int) -> None:
    """uvicorn tells the last one, which waits behind those that are not answered yet."""
    begun, gone = threading.Event(), threading.Event()

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            begun.set()
        gone.set()

    gc.collect()
    gc.disable()  # Full collections stop the event loop: a connection leaves them nothing to find.
    try:
        with listening(waiting) as port:
            with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
                connection.sendall(request(method="PUT") * count)
                assert begun.wait(SECONDS)
                connection.shutdown(socket.SHUT_RDWR)
            is_told = gone.wait(5)
            kind = RequestResponseCycle
            until(lambda: kind not in map(type, gc.get_objects()), "its requests are freed")
    finally:
        gc.enable()
    assert is_told
