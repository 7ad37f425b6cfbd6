"""Which requests a connection asks for an answer at once, and which are the application's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from waiting import SECONDS, until

from aotc_serve.http.http_connections import AT_ONCE_BYTES_MAX, bounded
from aotc_serve.inference.request_memory import Memory
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.inference.server_options import Limits

AT_ONCE, BY_APPLICATION = b"at once", b"in turn"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(BY_APPLICATION)(scope, receive, send)


def at_once(url: bytes, headers: Any, body: bytes) -> Response:
    return Response(AT_ONCE)


@contextmanager
def listening() -> Iterator[int]:
    """The port of a server whose answers say where they were made."""
    protocol = bounded(Limits(), Metrics(), Memory(2**30), at_once)
    config = uvicorn.Config(application, port=0, http=protocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
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
