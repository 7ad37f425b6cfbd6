"""Requests under the minimum-throughput rule, without redirects, through proxies."""

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from aotc_runtime.base.errors import RegistryError
from aotc_serve.http_client import Body, HttpClient, Response
from aotc_serve.oci.parallel_transfer import each
from tests.registries.conftest import Connect, refused
from tests.registries.oci_server import Handler, OciServer
from tests.waiting import interrupted_start

MANY = 1000


@pytest.fixture
def client() -> Iterator[HttpClient]:
    made = HttpClient(stall_seconds=0.4)
    yield made
    made.close()


def get(client: HttpClient, server: OciServer) -> Response:
    return client.request("GET", f"http://{server.address}/v2/", {})


def served(server: OciServer, fault: Callable[[Handler], object]) -> None:
    """From now on, each request is answered by this."""

    def serve(handler: Handler) -> bool:
        fault(handler)
        return True

    server.faults[:] = [serve]


def begin(handler: Handler, number: int) -> None:
    """Send some of a body that is said to be longer."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(MANY))
    handler.end_headers()
    handler.wfile.write(b"x" * number)
    handler.wfile.flush()


def read_all(response: Response) -> bytes:
    with response:
        return b"".join(iter(lambda: response.read(MANY), b""))


@pytest.mark.parametrize("data", [b"here", b""])
def test_a_connection_is_used_again(data: bytes, client: HttpClient, server: OciServer) -> None:
    ports: list[int] = []

    def note(handler: Handler) -> None:
        ports.append(handler.client_address[1])
        handler.answer(200, data)

    served(server, note)
    assert read_all(get(client, server)) == data
    with get(client, server):
        pass  # a body that is not read costs its connection, an empty one does not
    assert read_all(get(client, server)) == data
    assert len(ports) == 3 and len(set(ports)) == (2 if data else 1)


def test_redirect_is_not_followed_with_credentials(client: HttpClient, server: OciServer) -> None:
    there = {"Location": f"http://localhost:{server.address.rpartition(':')[2]}/elsewhere"}
    served(server, lambda handler: handler.answer(307, b"", there))
    url = f"http://{server.address}/v2/"
    with client.request("PUT", url, {"Authorization": "Basic x"}, Body(b"data")) as response:
        assert (response.status, response.header("location")) == (307, there["Location"])
    assert [asked.path for asked in server.asked] == ["/v2/"]


@pytest.fixture
def end() -> Iterator[threading.Event]:
    """Set when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def silent(handler: Handler, end: threading.Event) -> None:
    end.wait(20)


def trickling(handler: Handler, end: threading.Event) -> None:
    """A byte now and then, which is more than silence."""
    with suppress(OSError):
        while not end.wait(0.05):
            handler.wfile.write(b"x")
            handler.wfile.flush()
    handler.close_connection = True


STALLS: dict[str, Callable[[Handler, threading.Event], object]] = {
    "silence": silent,
    "a trickle of headers": lambda handler, end: (
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: "),
        trickling(handler, end),
    ),
    "a trickle of a body": lambda handler, end: (begin(handler, 10), trickling(handler, end)),
    "a trickle of a body without a length": lambda handler, end: (
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
        trickling(handler, end),
    ),
    "a trickle of a chunk's size": lambda handler, end: (
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"),
        trickling(handler, end),
    ),
    "a body that stops": lambda handler, end: (begin(handler, 10), silent(handler, end)),
}


@pytest.mark.parametrize("how", STALLS)
def test_a_transfer_without_progress_is_aborted(
    how: str, client: HttpClient, server: OciServer, end: threading.Event
) -> None:
    served(server, lambda handler: STALLS[how](handler, end))
    with pytest.raises(TimeoutError, match=r"no progress within 0\.4 s"):
        read_all(get(client, server))


def test_a_server_that_does_not_read_is_left(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(TimeoutError, match="no progress"):
            client.request("PUT", url, {}, Body(bytes(2**24)))


def test_all_requests_together_have_their_time(server: OciServer, end: threading.Event) -> None:
    client = HttpClient(total_seconds=0.3)
    with get(client, server):
        pass
    served(server, lambda handler: silent(handler, end))
    with pytest.raises(TimeoutError, match="no whole response in time"):
        get(client, server)
    client.close()


def test_a_body_that_breaks_off_is_an_error(client: HttpClient, server: OciServer) -> None:
    served(server, lambda handler: (begin(handler, 10), handler.hang_up()))
    with pytest.raises(ConnectionError, match=f"{MANY - 10} more expected"):
        read_all(get(client, server))


@pytest.mark.parametrize(
    "sent", [b"no HTTP\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"]
)
def test_invalid_response_is_an_error(sent: bytes, client: HttpClient, server: OciServer) -> None:
    served(server, lambda handler: (handler.wfile.write(sent), handler.hang_up()))
    with pytest.raises(ConnectionError):
        get(client, server)


def test_what_a_callback_raises_is_raised(client: HttpClient, server: OciServer) -> None:
    class Stopping:
        def on_response(self) -> None: ...

        def on_received(self, number: int) -> None: ...

        def on_sent(self, number: int) -> None:
            raise RuntimeError("enough")

    url = f"http://{server.address}/v2/"
    with pytest.raises(RuntimeError, match="enough"):
        client.request("PUT", url, {}, Body(b"x"), Stopping())


def test_closed_client_aborts_everything(server: OciServer, end: threading.Event) -> None:
    client, reached = HttpClient(stall_seconds=20), threading.Event()

    def stall(handler: Handler) -> None:
        reached.set()
        end.wait(20)

    served(server, stall)
    closing = threading.Thread(target=lambda: (reached.wait(20), client.close()))
    closing.start()
    with pytest.raises(InterruptedError, match="stopped"):
        get(client, server)
    closing.join()
    asked = len(server.asked)
    with pytest.raises(InterruptedError, match="stopped"):
        get(client, server)
    with pytest.raises(InterruptedError, match="stopped"):
        client.wait(20)
    assert len(server.asked) == asked


def test_a_proxy_tunnels_and_is_told_its_password(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch, server: OciServer
) -> None:
    told: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def refuse() -> None:
            there, _ = proxy.accept()
            with there:
                told.append(there.recv(2**16))
                there.sendall(b"HTTP/1.1 403 no\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        address = f"127.0.0.1:{proxy.getsockname()[1]}"
        monkeypatch.setenv("https_proxy", f"me:s%40cret@{address}")
        monkeypatch.setenv("http_proxy", address)
        with pytest.raises(ConnectionError, match="403"):
            client.request("GET", "https://registry.invalid/v2/", {"Authorization": "Basic x"})
        thread.join()
        monkeypatch.setenv("no_proxy", "registry.invalid")
        with pytest.raises(ConnectionError, match=r"resolve|not known|Temporary"):
            client.request("GET", "https://registry.invalid/v2/", {})
        with get(client, server) as response:  # on loopback
            assert response.status == 200
    (request,) = told
    assert request.startswith(b"CONNECT registry.invalid:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic bWU6c0BjcmV0" in request
    assert b"\r\nAuthorization" not in request


def test_own_authority_allows_http(server: OciServer, secure: OciServer, tmp_path: Path) -> None:
    place = tmp_path / "ca.pem"  # in which comments are ignored
    place.write_bytes("# Autorité\n".encode() + place.read_bytes())
    client = HttpClient(tmp_path / "ca.pem", 10.0)
    with get(client, server) as response:
        assert response.status == 200
    with client.request("GET", f"https://{secure.address}/v2/", {}) as response:
        assert response.status == 200
    client.close()
    client, asked = HttpClient(), len(secure.asked)
    with pytest.raises(ssl.SSLCertVerificationError, match="self"):
        client.request("GET", f"https://{secure.address}/v2/", {"Authorization": "Basic x"})
    assert len(secure.asked) == asked
    client.close()


def test_a_certificate_of_another_host_is_rejected(secure: OciServer, tmp_path: Path) -> None:
    client = HttpClient(tmp_path / "ca.pem")
    port = secure.address.rpartition(":")[2]
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        client.request("GET", f"https://localhost:{port}/v2/", {"Authorization": "Basic x"})
    assert secure.asked == []
    client.close()


@pytest.mark.parametrize("data", [None, b"no certificate", b"", "a pipe"])
def test_a_file_without_certificates_is_refused(data: Any, tmp_path: Path) -> None:
    place = tmp_path / "ca.pem"
    if data == "a pipe":
        os.mkfifo(place)
    elif data is not None:
        place.write_bytes(data)
    told = refused(HttpClient, place, kind=RegistryError)
    assert told.code == "AOTC-E770" and str(place) in told.where


def test_the_first_that_fails_ends_what_runs_beside_it(connect: Connect) -> None:
    repository, ended = connect(), threading.Event()
    began = threading.Event()

    def work(item: str) -> None:
        if item == "fails":
            began.wait(20)
            raise RuntimeError(item)
        began.set()
        try:
            repository.http.wait(20)
        except InterruptedError:
            ended.set()

    with pytest.raises(RuntimeError, match="fails"):
        each(repository, ["waits", "fails"], work)
    assert ended.is_set()


def test_a_signal_while_a_thread_starts_leaves_nothing_running(connect: Connect) -> None:
    ended: list[str] = []
    repository = connect()
    with interrupted_start() as interrupted:

        def work(item: str) -> None:
            interrupted.wait(20)
            time.sleep(0.1)
            ended.append(item)

        with pytest.raises(KeyboardInterrupt):
            each(repository, ["first", "second"], work)
        assert ended == ["first"]
