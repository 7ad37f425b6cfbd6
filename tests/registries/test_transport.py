"""Connections to registries: kept while they are good, ended where nothing gets on, told apart."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from aotc_runtime.base.errors import RegistryError
from aotc_serve.oci.http_transport import Answer, Body, Transport
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.parallel_transfer import each
from aotc_serve.oci.registry_client import UNWATCHED, Pace
from tests.registries.conftest import Connect
from tests.registries.oci_server import Handler, OciServer

MANY = 1000


@pytest.fixture
def transport() -> Iterator[Transport]:
    made = Transport(seconds=0.4)
    yield made
    made.stop()


def ask(transport: Transport, server: OciServer, pace: Pace = UNWATCHED) -> Answer:
    body = Body.of(b"x" * MANY) if pace is not UNWATCHED else None
    method = "GET" if body is None else "PUT"
    return transport.ask(method, f"http://{server.address}/v2/", {}, body, pace)


def served(server: OciServer, fault: Callable[[Handler], object]) -> None:
    """From now on, each request is answered by this."""

    def serve(handler: Handler) -> bool:
        fault(handler)
        return True

    server.faults[:] = [serve]


def begun(handler: Handler, number: int) -> None:
    """Some of a body that is said to be longer."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(MANY))
    handler.end_headers()
    handler.wfile.write(b"x" * number)
    handler.wfile.flush()


def all_of(answer: Answer) -> bytes:
    with answer:
        return b"".join(iter(lambda: answer.read(MANY), b""))


def test_a_connection_that_was_read_to_its_end_is_used_again(
    transport: Transport, server: OciServer
) -> None:
    ports: list[int] = []

    def note(handler: Handler) -> None:
        ports.append(handler.client_address[1])
        handler.answer(200, b"here")

    served(server, note)
    assert [all_of(ask(transport, server)) for _ in range(3)] == [b"here"] * 3
    assert len(ports) == 3 and len(set(ports)) == 1


def test_what_the_caller_raises_is_not_tried_again(transport: Transport, server: OciServer) -> None:
    class Stopping(Pace):
        asked = 0

        def sent(self, number: int) -> None:
            self.asked += 1
            raise RuntimeError("enough")

    all_of(ask(transport, server))
    pace = Stopping()
    with pytest.raises(RuntimeError, match="enough"):
        ask(transport, server, pace)
    assert pace.asked == 1


@pytest.fixture
def trickle() -> Iterator[Callable[[Handler], None]]:
    """Sends a byte now and then, which is more than silence, until the test ends."""
    end = threading.Event()

    def send(handler: Handler) -> None:
        with suppress(OSError):
            while not end.wait(0.05):
                handler.wfile.write(b"x")
        handler.close_connection = True

    yield send
    end.set()


def test_a_server_that_is_silent_is_left(transport: Transport, server: OciServer) -> None:
    end = threading.Event()
    served(server, lambda handler: end.wait(20))
    try:
        with pytest.raises(TimeoutError, match="timed out"):
            ask(transport, server)
    finally:
        end.set()


def test_a_server_that_never_ends_its_headers_is_left(
    transport: Transport, server: OciServer, trickle: Callable[[Handler], None]
) -> None:
    served(
        server, lambda handler: (handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: "), trickle(handler))
    )
    with pytest.raises(TimeoutError, match=r"no answer within 0\.4 s"):
        ask(transport, server)


def test_a_body_that_hardly_gets_on_is_left(
    transport: Transport, server: OciServer, trickle: Callable[[Handler], None]
) -> None:
    served(server, lambda handler: (begun(handler, 10), trickle(handler)))
    with pytest.raises(TimeoutError, match=r"nothing gets on within 0\.4 s"):
        all_of(ask(transport, server))


def test_a_body_that_breaks_off_is_not_all_of_it(transport: Transport, server: OciServer) -> None:
    def cut(handler: Handler) -> None:
        begun(handler, 10)
        handler.hang_up()

    served(server, cut)
    with pytest.raises(ConnectionError, match=f"{MANY - 10} bytes before the end"):
        all_of(ask(transport, server))


def test_what_is_stopped_ends_and_begins_nothing(server: OciServer) -> None:
    transport, end, reached = Transport(seconds=20), threading.Event(), threading.Event()

    def stall(handler: Handler) -> None:
        reached.set()
        end.wait(20)

    served(server, stall)

    def stop() -> None:
        reached.wait(20)
        transport.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        with pytest.raises(InterruptedError, match="stopped"):
            ask(transport, server)
    finally:
        end.set()
        stopping.join()
    asked = len(server.asked)
    with pytest.raises(InterruptedError, match="stopped"):
        ask(transport, server)
    with pytest.raises(InterruptedError, match="stopped"):
        transport.wait(20)
    assert len(server.asked) == asked


def test_who_names_an_authority_may_still_ask_without_tls(
    server: OciServer, secure: OciServer, tmp_path: Path
) -> None:
    transport = Transport(tmp_path / "ca.pem", 10.0)
    try:
        with ask(transport, server) as answer:
            assert answer.status == 200
    finally:
        transport.stop()


@pytest.mark.parametrize("data", [None, b"no certificate"])
def test_an_authority_that_is_none_is_refused(data: bytes | None, tmp_path: Path) -> None:
    place = tmp_path / "ca.pem"
    if data is not None:
        place.write_bytes(data)
    with pytest.raises(RegistryError) as caught:
        Transport(place)
    assert caught.value.code == "AOTC-E770" and str(place) in str(caught.value)


def test_the_first_that_fails_ends_what_runs_beside_it(connect: Connect) -> None:
    repository, ended = connect(), threading.Event()
    began = threading.Event()

    def work(item: str) -> None:
        if item == "fails":
            began.wait(20)
            raise RuntimeError(item)
        began.set()
        try:
            repository.transport.wait(20)
        except InterruptedError:
            ended.set()

    with pytest.raises(RuntimeError, match="fails"):
        each(repository, ["waits", "fails"], work)
    assert ended.is_set()


def test_a_name_without_its_scheme_is_no_reference() -> None:
    with pytest.raises(RegistryError) as caught:
        parse("127.0.0.1/models/digits")
    assert caught.value.findings[0].found == "no reference"
