"""A server that is told to end answers what it has been asked, and then ends."""

import http.client
import signal
import socket
import threading

import numpy as np
import pytest
from served import Served, binary_request, serving
from waiting import SECONDS, until

from aotc_runtime import __main__
from aotc_serve import server_process
from aotc_serve.http.listen_socket import Listening
from tests.conftest import Bundle

X = np.random.default_rng(2).random((8, 64), np.float32)
INPUTS = {"image": ("FP32", X)}


def half_sent(served: Served, count: int) -> tuple[socket.socket, bytes]:
    """A request of which so many bytes were sent, and the rest."""
    header, data = binary_request(INPUTS)
    body = header + data
    head = (
        "POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\n"
        f"Inference-Header-Content-Length: {len(header)}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    client = socket.create_connection(("127.0.0.1", served.port), SECONDS)
    whole = head + body
    client.sendall(whole[:count])
    return client, whole[count:]


def received(client: socket.socket) -> bytes:
    """Everything until the server closes."""
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("count", [20, 1000], ids=["in the header", "in the body"])
def test_sigterm_lets_running_requests_end(count: int, digits_bundle: Bundle) -> None:
    with serving(digits_bundle[:1], digits_bundle[1:]) as served:
        client, rest = half_sent(served, count)
        # Until it is answered, the server has taken the other connection's bytes, too.
        assert served.get("/v2/health/ready")[0] == 200
        served.process.send_signal(signal.SIGTERM)
        served.wait_for("ending")
        until(lambda: refuses(served), "it takes no more connections")
        client.sendall(rest)
        answer = received(client)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"connection: close" in answer
        assert served.process.wait(SECONDS) == 0
        served.read_all()
        assert served.events[-1] == {"event": "ended"}


def test_sigterm_serves_on_for_a_while_unready(digits_bundle: Bundle) -> None:
    with serving(digits_bundle[:1], digits_bundle[1:], "--drain-delay", "600") as served:
        served.process.send_signal(signal.SIGTERM)
        served.wait_for("ending")
        assert served.get("/v2/health/ready")[0] == 503
        assert served.get("/v2/health/live")[0] == 200
        status, headers, _ = served.ask("GET", "/v2/models/digits/ready")
        assert status == 200 and headers["connection"] == "close"
        assert served.infer("digits", INPUTS)[0] == 200
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(SECONDS) == 0


def test_third_signal_ends_the_process(digits_bundle: Bundle) -> None:
    with serving(digits_bundle[:1], digits_bundle[1:], "--drain-delay", "600") as served:
        client, _ = half_sent(served, 1000)
        assert served.get("/v2/health/ready")[0] == 200
        served.process.send_signal(signal.SIGTERM)
        served.wait_for("ending")
        served.process.send_signal(signal.SIGTERM)
        until(lambda: refuses(served), "it takes no more connections")
        assert served.process.poll() is None
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(SECONDS) == 128 + signal.SIGTERM
        client.close()


def test_a_socket_that_stops_gives_its_queue_and_refuses_the_next() -> None:
    listening = Listening("127.0.0.1", 0)
    listening.socket.setblocking(False)
    address = listening.host, listening.port
    with socket.create_connection(address, SECONDS) as before:
        (taken,) = listening.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, SECONDS)
        listening.socket.close()
        before.sendall(b"asked")
        assert taken.recv(5) == b"asked"
        taken.close()


def refuses(served: Served) -> bool:
    try:
        socket.create_connection(("127.0.0.1", served.port), SECONDS).close()
    except ConnectionRefusedError:
        return True
    return False


class Asking(threading.Thread):
    """A client behind a load balancer, which opens no connection to a server that is ending.

    keeps: one connection for all requests, as long as the server keeps it. answers: the statuses.
    lost: what happened to a request that got no answer.
    """

    def __init__(self, served: Served, keeps: bool, ending: threading.Event) -> None:
        super().__init__()
        self._served, self._keeps, self._ending = served, keeps, ending
        self.answers: list[int] = []
        self.lost: list[str] = []

    def run(self) -> None:
        while not self._ending.is_set():
            connection = self._served.connect()
            try:
                connection.connect()
                while connection.sock is not None:
                    self.answers.append(self._served.infer("digits", INPUTS, connection)[0])
                    if not self._keeps:
                        connection.close()
            except (OSError, http.client.HTTPException) as error:
                self.lost.append(repr(error))
            connection.close()


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "new"])
@pytest.mark.parametrize("options", [(), ("--max-delay", "2")], ids=["alone", "joined"])
def test_sigterm_loses_none(keeps: bool, options: tuple[str, ...], digits_bundle: Bundle) -> None:
    ending = threading.Event()
    with serving(digits_bundle[:1], digits_bundle[1:], "--drain-delay", "600", *options) as served:
        clients = [Asking(served, keeps, ending) for _ in range(8)]
        for client in clients:
            client.start()
        until(lambda: all(len(client.answers) > 5 for client in clients), "they are served")
        served.process.send_signal(signal.SIGTERM)
        until(lambda: served.get("/v2/health/ready")[0] == 503, "balancers are told")
        ending.set()
        for client in clients:
            client.join(SECONDS)
        assert not any(client.is_alive() for client in clients)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(SECONDS) == 0
    assert [client.lost for client in clients] == [[]] * 8
    assert {status for client in clients for status in client.answers} == {200}


def test_reload_during_start_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    monkeypatch.setattr(
        server_process, "run", lambda options: found.append(signal.getsignal(signal.SIGHUP))
    )
    before = signal.getsignal(signal.SIGHUP)
    try:
        assert __main__.main(["serve", "it.aotb", "--trust", "trust.toml"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert found == [signal.SIG_IGN]
