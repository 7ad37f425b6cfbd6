"""Clients that lie, dawdle, die or come in thousands: clear errors, and bounded memory."""

import contextlib
import json
import re
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import Served, binary_request, serving
from waiting import SECONDS, until

from tests.conftest import Bundle

MIB = 2**20
X = np.random.default_rng(3).random((8, 64), np.float32)
INPUTS = {"image": ("FP32", X)}
INFER = "POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def served(digits_bundle: Bundle) -> Iterator[Served]:
    limits = ["--max-body", "4M", "--max-memory", "16M", "--max-connections", "50"]
    limits += ["--header-seconds", "1.5", "--body-seconds", "1.5", "--idle-seconds", "1.5"]
    limits += ["--write-seconds", "1.5"]
    with serving(digits_bundle[:1], digits_bundle[1:], *limits) as server:
        yield server
        assert server.infer("digits", INPUTS)[0] == 200
        assert server.gauge("in_flight_bytes") == 0


@pytest.fixture(autouse=True)
def serves_on(served: Served) -> Iterator[None]:
    """After each test it answers, and holds nothing."""
    yield
    assert served.infer("digits", INPUTS)[0] == 200
    until(lambda: served.gauge("in_flight_bytes") == 0, "it holds no request")


def whole_request(
    more: str = "", inputs: dict[str, Any] = INPUTS, *, is_chunked: bool = False
) -> bytes:
    """A request with its body. more: of its header."""
    header, data = binary_request(inputs)
    body = header + data
    length = f"Inference-Header-Content-Length: {len(header)}\r\n"
    if is_chunked:
        head = f"{INFER}{more}{length}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n"
        return head.encode() + body + b"\r\n0\r\n\r\n"
    return f"{INFER}{more}{length}Content-Length: {len(body)}\r\n\r\n".encode() + body


def client_of(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), SECONDS)


def received(client: socket.socket) -> bytes:
    """Everything until the server closes."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def told(answer: bytes) -> tuple[int, str]:
    """Status and our code of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["code"]


SENT: dict[str, tuple[bytes, int, str]] = {
    "a body that is stated larger than allowed": (
        f"{INFER}Content-Length: {10**12}\r\n\r\n".encode(), 413, "AOTC-E763",
    ),
    "a header without end": (b"GET / HTTP/1.1\r\nx: " + b"y" * 2**20, 431, "AOTC-E763"),
    "an address without end": (b"GET /" + b"y" * 2**20, 431, "AOTC-E763"),
    "headers without end": (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000, 431, "AOTC-E763"),
    "a trailer without end": (
        f"{INFER}Transfer-Encoding: chunked\r\n\r\n0\r\nx: ".encode() + b"y" * 2**20,
        431,
        "AOTC-E763",
    ),
    "no HTTP": (b"\x16\x03\x01 hello\r\n\r\n", 400, "AOTC-E761"),
    "a negative length": (f"{INFER}Content-Length: -1\r\n\r\n".encode(), 400, "AOTC-E761"),
    "two lengths": (
        f"{INFER}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab".encode(), 400, "AOTC-E761",
    ),
    "a length and chunks": (
        f"{INFER}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode(),
        400,
        "AOTC-E761",
    ),
    "half a header": (b"GET /v2 HTTP/1.1\r\nHost:", 408, "AOTC-E764"),
    "nothing": (b"", 408, "AOTC-E764"),
    "half a body": (f"{INFER}Content-Length: 100\r\n\r\n{{".encode(), 408, "AOTC-E764"),
    "a chunk longer than it says": (
        f"{INFER}Transfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n".encode(),
        400,
        "AOTC-E761",
    ),
    "a chunk of no size": (
        f"{INFER}Transfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n0\r\n\r\n".encode(),
        400,
        "AOTC-E761",
    ),
    "a chunk larger than any number": (
        f"{INFER}Transfer-Encoding: chunked\r\n\r\n{'f' * 17}\r\nabcde".encode(), 400, "AOTC-E761",
    ),
    "half a chunk": (
        f"{INFER}Transfer-Encoding: chunked\r\n\r\n5\r\nab".encode(), 408, "AOTC-E764",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "status", "code"), SENT.values(), ids=SENT)
def test_wrong_requests_are_closed(served: Served, sent: bytes, status: int, code: str) -> None:
    with client_of(served) as client:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            client.sendall(sent)
        answer = received(client)
    assert told(answer) == (status, code)
    assert b"Traceback" not in answer and b'File "' not in answer


@pytest.mark.parametrize(
    ("stated", "expected"),
    [("-1", 400), ("+5", 400), ("5 5", 400), ("1e3", 400), ("99999999999", 400), ("2", 400)],
)
def test_header_with_wrong_data_start_is_told(served: Served, stated: str, expected: int) -> None:
    header, data = binary_request(INPUTS)
    headers = {"Inference-Header-Content-Length": stated}
    path = "/v2/models/digits/infer"
    status, _, answer = served.ask("POST", path, header + data, headers)
    assert (status, json.loads(answer)["code"]) == (expected, "AOTC-E761")
    assert b"Traceback" not in answer and b'File "' not in answer


def test_what_follows_a_body_that_is_longer_than_stated_is_no_part_of_it(served: Served) -> None:
    with client_of(served) as client:
        client.sendall(whole_request() + b"surplus\r\n\r\n")
        answer = received(client)
    assert answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 400 "))
    assert told(answer[answer.rindex(b"HTTP/1.1 4") :]) == (400, "AOTC-E761")


@pytest.mark.parametrize("part", ["header", "body", "chunks"])
def test_bytes_that_drip_in_do_not_extend_the_time(served: Served, part: str) -> None:
    """Each byte arrives in time, and the whole never would."""
    sent, drop = {
        "header": (INFER.encode() + b"x: ", b"y"),
        "body": (f"{INFER}Content-Length: 100000\r\n\r\n".encode(), b"{"),
        "chunks": (f"{INFER}Transfer-Encoding: chunked\r\n\r\n".encode(), b"1\r\n{\r\n"),
    }[part]
    with client_of(served) as client:
        client.sendall(sent)
        client.settimeout(0.1)
        answer, drops = b"", 0
        while not answer and drops < 10 * SECONDS:
            drops += 1
            # The server may have answered and closed by now.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                client.sendall(drop)
            with contextlib.suppress(TimeoutError):
                answer = client.recv(65536)
        client.settimeout(SECONDS)
        answer += received(client)
    assert told(answer) == (408, "AOTC-E764")


def test_chunks_without_end_are_refused_at_the_limit(served: Served) -> None:
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with client_of(served) as client:
        client.sendall(f"{INFER}Transfer-Encoding: chunked\r\n\r\n".encode())
        sent = 0
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < 64 * MIB:
                client.sendall(chunk)
                sent += len(chunk)
        assert sent < 64 * MIB


def test_bodies_that_are_only_announced_take_nothing(served: Served) -> None:
    """Each may have 4 MiB, and all together 16."""
    clients = [client_of(served) for _ in range(8)]
    length = f"Inference-Header-Content-Length: 100\r\nContent-Length: {4 * MIB}\r\n\r\n"
    for client in clients:
        client.sendall(f"{INFER}{length}".encode() + b"x" * 1000)
    large = {"image": ("FP32", np.zeros((512 * 1024 // 256, 64), np.float32))}
    assert served.infer("digits", INPUTS)[0] == 200
    assert served.infer("digits", large)[1]["code"] == "AOTC-E613"
    assert served.ask("GET", "/v2/health/ready")[0] == 200
    found = [told(received(client)) for client in clients]
    for client in clients:
        client.close()
    assert found == [(408, "AOTC-E764")] * 8


def test_bodies_that_arrive_by_half_leave_a_share_to_small_requests(served: Served) -> None:
    """Together they would take 24 of 16 MiB."""
    clients = [client_of(served) for _ in range(8)]
    length = f"Inference-Header-Content-Length: 100\r\nContent-Length: {4 * MIB}\r\n\r\n"
    refused = 0
    for client in clients:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            client.sendall(f"{INFER}{length}".encode() + b"x" * (3 * MIB))
        assert served.infer("digits", INPUTS)[0] == 200
        assert served.gauge("in_flight_bytes") <= 14 * MIB
    for client in clients:
        answer = received(client)
        refused += not answer or told(answer) == (503, "AOTC-E766")
        client.close()
    assert refused >= 4


def test_json_has_a_limit_of_its_own_and_the_refusal_names_the_way(served: Served) -> None:
    body = b"[" + b" " * (2 * MIB)
    status, _, data = served.ask("POST", "/v2/models/digits/infer", body)
    document = json.loads(data)
    assert (status, document["code"]) == (413, "AOTC-E763")
    assert "binary data" in document["findings"][0]["hint"]
    headers = {"Inference-Header-Content-Length": str(len(body))}
    status, _, data = served.ask("POST", "/v2/models/digits/infer", body + b"x", headers)
    assert (status, json.loads(data)["code"]) == (413, "AOTC-E763")
    with client_of(served) as client:
        client.sendall(f"{INFER}Content-Length: {2 * MIB}\r\n\r\n".encode())
        assert told(received(client)) == (413, "AOTC-E763"), "before any of it was sent"


def test_more_header_fields_than_allowed_are_refused(served: Served) -> None:
    """Of 7 bytes each, which Python makes 200 of."""
    fields = [f"{number:03}: b\r\n" for number in range(129)]
    for count, status in ((120, 400), (128, 431)):
        with client_of(served) as client:
            head = f"{INFER}Content-Length: 1\r\nConnection: close\r\n" + "".join(fields[:count])
            client.sendall(f"{head}\r\n{{".encode())
            assert told(received(client))[0] == status


@pytest.mark.parametrize("part", ["header", "requests"])
def test_waiting_headers_are_counted(part: str, digits_bundle: Bundle) -> None:
    """60 KiB of a header that does not end; thousands of requests behind one without its body."""
    sent = b"GET / HTTP/1.1\r\nx: " + b"y" * 60_000
    if part == "requests":
        sent = f"{INFER}Content-Length: 9\r\n\r\n12345678".encode() + b"9"
        sent += b"GET /v2 HTTP/1.1\r\n\r\n" * 12_000
    options = ["--max-memory", "16M", "--header-seconds", "600", "--max-json", "1M"]
    with serving(digits_bundle[:1], digits_bundle[1:], *options) as server:
        assert server.infer("digits", INPUTS)[0] == 200
        before = resident(server, "VmHWM")
        clients = [client_of(server) for _ in range(200)]
        for client in clients:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                client.sendall(sent)
        assert server.infer("digits", INPUTS)[0] == 200
        assert resident(server, "VmHWM") - before < 1.5 * 16 * MIB
        for client in clients:
            client.close()


def test_requests_behind_one_another_are_bounded(served: Served) -> None:
    first = f"{INFER}Content-Length: 2\r\n\r\n{{}}".encode()
    with client_of(served) as client:
        client.sendall(first + b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n" * 500)
        answer = received(client)
    refused = answer[answer.rindex(b"HTTP/1.1 503") :]
    assert told(refused) == (503, "AOTC-E766") and answer.count(b"HTTP/1.1 200") < 100


@pytest.mark.parametrize("what", ["nothing", "half a body"])
def test_silent_clients_make_room_for_others(what: str, digits_bundle: Bundle) -> None:
    """They take every connection, and would have a minute to send the rest."""
    options = ["--max-connections", "40", "--header-seconds", "60"]
    sent = b"" if what == "nothing" else f"{INFER}Content-Length: 100\r\n\r\n{{".encode()
    with serving(digits_bundle[:1], digits_bundle[1:], *options) as server:
        clients = [client_of(server) for _ in range(40)]
        for client in clients:
            client.sendall(sent)
        for _ in range(20):
            assert server.infer("digits", INPUTS)[0] == 200
        assert server.ask("GET", "/v2/health/ready")[0] == 200
        for client in clients:
            client.close()


def test_storm_of_connects_does_not_stop_the_server(digits_bundle: Bundle) -> None:
    """All of them are accepted in one turn of the event loop, or as many as there is room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving(digits_bundle[:1], digits_bundle[1:], "--max-connections", "100") as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1200, 1200))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(5000, hard)), hard))
        clients = []
        try:
            server.process.send_signal(signal.SIGSTOP)
            clients = [client_of(server) for _ in range(3000)]
            server.process.send_signal(signal.SIGCONT)
            assert server.infer("digits", INPUTS)[0] == 200
        finally:
            for client in clients:
                client.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        until(lambda: server.gauge("connections") <= 2, "they are gone")
        server.process.terminate()
        assert server.process.stderr is not None
        assert "out of system resource" not in server.process.stderr.read()


@pytest.mark.parametrize("path", ["/v2/", "/v2/models/digits/infer/", "/v2/models/digits/"])
def test_slash_at_the_end_is_no_redirection_to_another_host(served: Served, path: str) -> None:
    method = "POST" if "infer" in path else "GET"
    status, headers, data = served.ask(method, path, b"{}", {"Host": "other.example"})
    assert (status, json.loads(data)["code"]) == (404, "AOTC-E762") and "location" not in headers


@pytest.mark.parametrize("options", [(), ("--max-delay", "2")], ids=["alone", "joined"])
def test_refused_is_released(options: tuple[str, ...], digits_bundle: Bundle) -> None:
    """Python frees what holds itself now and then only, and an error holds all that it came by."""
    with serving(digits_bundle[:1], digits_bundle[1:], *options) as server:
        short = {"image": ("FP64", np.zeros((16 * MIB // 8, 1)))}
        assert server.infer("digits", INPUTS)[0] == 200
        before = resident(server)
        for _ in range(16):
            assert server.infer("digits", short)[:1] == (400,)
        assert resident(server) - before < 128 * MIB


AMPLE: dict[str, tuple[str, str]] = {
    "lists as a parameter": ('"parameters": {"a": [%s[]]}', "[],"),
    "many parameters": ('"parameters": {%s"a": 1}', '"a": 1,'),
    "numbers": ('"data": [%s0]', "1e1,"),
}


@pytest.mark.parametrize(("text", "part"), AMPLE.values(), ids=AMPLE)
def test_json_memory_is_bounded(text: str, part: str, digits_bundle: Bundle) -> None:
    tensor = '{"name": "image", "datatype": "FP32", "shape": [8, 64], %s}'
    filled = text % (part * (4_000_000 // len(part)))
    body = (f'{{"inputs": [{tensor}]}}' % filled).encode()
    with serving(digits_bundle[:1], digits_bundle[1:]) as server:
        assert server.infer("digits", INPUTS)[0] == 200
        before = resident(server, "VmHWM")
        status, _, data = server.ask("POST", "/v2/models/digits/infer", body)
        assert (status, json.loads(data)["code"]) == (400, "AOTC-E761")
        assert resident(server, "VmHWM") - before < 8 * len(body)


def test_a_name_without_end_is_not_told_back(served: Served) -> None:
    name = "é" * (MIB // 2)
    tensor = {"name": name, "datatype": "FP32", "shape": [1, 64], "data": [0] * 64}
    right = tensor | {"name": "image"}
    for asked in (
        {"inputs": [tensor]},
        {"inputs": [right | {"datatype": name}]},
        {"inputs": [right], "outputs": [{"name": name}]},
    ):
        status, _, data = served.ask(
            "POST", "/v2/models/digits/infer", json.dumps(asked, ensure_ascii=False).encode()
        )
        assert status == 400 and len(data) < 4096


UPGRADE = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
"""What Java's client sends with every request, unless it is told not to."""


@pytest.mark.parametrize(("step", "is_chunked"), [(97, False), (2**20, False), (2**20, True)])
def test_upgrade_is_answered_in_http1(served: Served, step: int, is_chunked: bool) -> None:
    sent = whole_request(UPGRADE, is_chunked=is_chunked)
    with client_of(served) as client:
        for start in range(0, len(sent), step):
            client.sendall(sent[start : start + step])
        first = whole(client)
        assert first.startswith(b"HTTP/1.1 200 ")
        close = UPGRADE.replace("Upgrade,", "Upgrade, close,")
        client.sendall(sent + f"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n{close}\r\n".encode())
        others = received(client)
    assert others.count(b"HTTP/1.1 200 ") == 2 and others.endswith(b'{"live":true}')


def die(client: socket.socket) -> None:
    """A reset instead of an end: what a killed process leaves."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()


def slow_client_of(served: Served) -> socket.socket:
    """A client that takes little of an answer at a time."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(SECONDS)
    client.connect(("127.0.0.1", served.port))
    return client


def test_clients_that_die_leave_nothing_behind(served: Served) -> None:
    """While they send, and while they are answered."""
    request = whole_request()
    for missing in (1, 100, 2000):
        client = client_of(served)
        client.sendall(request[:-missing])
        die(client)
    for taken in (0, 1, 2000):
        client = slow_client_of(served)
        client.sendall(request * 20)
        while taken > 0:
            part = client.recv(taken)
            assert part
            taken -= len(part)
        die(client)
    until(lambda: served.gauge("in_flight_bytes") == 0, "it holds no request")


def test_more_connections_than_allowed_are_turned_away_at_once(served: Served) -> None:
    clients = [client_of(served) for _ in range(80)]
    codes = []
    for client in clients:
        answer = received(client)
        codes.append(told(answer))
        client.close()
    assert codes.count((503, "AOTC-E766")) >= 30
    assert set(codes) == {(503, "AOTC-E766"), (408, "AOTC-E764")}


def test_a_client_that_does_not_take_its_answers_is_cut_off(served: Served) -> None:
    client = slow_client_of(served)
    with client, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        client.setblocking(False)
        request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        # Answers pile up behind each other until the server waits for the client to read.
        for _ in range(5000):
            with contextlib.suppress(BlockingIOError):
                client.send(request)
        client.settimeout(SECONDS)
        until(lambda: served.gauge("connections") <= 2, "the client is cut off")


def test_thousands_of_connections_use_bounded_memory(digits_bundle: Bundle) -> None:
    """3,500 may be there; each is asked and answered, and whoever comes beyond them is told. In a
    system that lets a process have fewer files, so many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(4_000, (hard if hard != resource.RLIM_INFINITY else 20_000) - 500)
    limit = count - 500
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 400), hard))
    clients: list[socket.socket] = []
    try:
        most = ["--max-connections", str(limit), "--header-seconds", "600"]
        with serving(digits_bundle[:1], digits_bundle[1:], *most) as server:
            kept = server.connect()
            server.infer("digits", INPUTS, kept)
            before = resident(server)
            while len(clients) < count:
                clients += [client_of(server) for _ in range(250)]
                assert server.infer("digits", INPUTS, kept)[0] == 200, "others are served meanwhile"
            answers = []
            for start in range(0, count, 250):
                for client in clients[start : start + 250]:
                    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                        client.sendall(whole_request())
                answers += [whole(client) for client in clients[start : start + 250]]
            served = [answer for answer in answers if answer.startswith(b"HTTP/1.1 200 ")]
            assert len(served) == limit - 1 and len(set(served)) == 1
            assert {answer[:12] for answer in answers} - {b""} == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
            assert server.infer("digits", INPUTS, kept)[0] == 200
            # 64 KiB for each: its buffers, and what Python holds for it.
            assert resident(server) - before < count * 2**16 + 64 * MIB
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def whole(client: socket.socket) -> bytes:
    """One answer, without its date; nothing, if the connection was reset before it was read."""
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            part = client.recv(65536)
        except ConnectionResetError:
            return b""
        data += part
        assert part or not data, "half a header"
        if not part:
            return b""
    length = int(re.search(rb"content-length: (\d+)", data)[1])  # type: ignore[index]
    head, _, body = data.partition(b"\r\n\r\n")
    while len(body) < length:
        body += client.recv(65536)
    return re.sub(rb"date: [^\r]*", b"", head) + body


def resident(server: Served, what: str = "VmRSS") -> int:
    """Bytes that the process has in memory; `VmHWM`: that it had at most."""
    text = Path(f"/proc/{server.process.pid}/status").read_text("utf-8")
    return int(re.search(rf"{what}:\s+(\d+)", text)[1]) * 1024  # type: ignore[index]


def test_body_that_nobody_reads_has_a_time_too(served: Served) -> None:
    """The request was refused before it; each byte would begin the time between requests anew."""
    with client_of(served) as client:
        client.sendall(b"POST /v2/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        client.sendall(b"x")
        client.settimeout(0.2)
        answer = b""
        for _ in range(int(5 * SECONDS)):
            with contextlib.suppress(TimeoutError):
                part = client.recv(65536)
                answer += part
                if not part:
                    break
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                client.sendall(b"x")
        else:
            pytest.fail("the connection is still open")
        assert answer.startswith(b"HTTP/1.1 404 ")
