"""Waiting time of a good client beside clients that take all there is of something.

`out/serve/server/bin/python -m benchmarks.serve_attacks BUNDLE POLICY [SECONDS [NAME]]`, with the
bundle and policy of manifests/digits.toml and the environment of `make test-serve`. Each attack
runs in a process of its own for SECONDS, against a server of its own on loopback. Beside it, one
client asks for a small inference over HTTP and over gRPC in turns, each time on a new connection.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import ROOT, machine

sys.path.insert(0, str(ROOT / "tests"))

from aotc_serve.grpc.grpc_server import STREAMS_MAX
from tests.servers.http2 import Http2, infer_request

MIB = 2**20
MEMORY = 256 * MIB
OPTIONS = ("--max-memory", "256M", "--max-connections", "1000", "--workers", "16")
SECONDS, GOAL = 10.0, 0.1
ENDING_SECONDS = 10.0
"""For an attacker to end by itself, which may wait for a connection."""
ZEROS = bytes(256)
HEADER = json.dumps(
    {
        "inputs": [
            {
                "name": "image",
                "datatype": "FP32",
                "shape": [1, 64],
                "parameters": {"binary_data_size": 256},
            }
        ]
    }
).encode()
INFER = "POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\n"
BINARY = f"{INFER}Inference-Header-Content-Length: {len(HEADER)}\r\n"
GOOD = f"{BINARY}Content-Length: {len(HEADER) + 256}\r\n\r\n".encode() + HEADER + ZEROS
READY = b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

type Attack = Callable[[int, str, float], None]
"""port of HTTP, address of gRPC, and the time at which it ends."""


def keep(port: int, sent: bytes, count: int, end: float) -> None:
    """Have so many connections open that have sent this much, and open those again that ended."""
    clients: list[socket.socket] = []
    while time.time() < end:
        while len(clients) < count and time.time() < end:
            client = socket.create_connection(("127.0.0.1", port))
            client.settimeout(2)
            with contextlib.suppress(OSError):
                client.sendall(sent)
            clients.append(client)
        time.sleep(0.2)
        for client in list(clients):
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                with contextlib.suppress(ConnectionError):
                    client.recv(65536)
                clients.remove(client)
                client.close()


def kept(sent: bytes, count: int) -> Attack:
    return lambda port, _, end: keep(port, sent, count, end)


def repeated(*bodies: bytes) -> Attack:
    """Ask with these bodies again and again, on two connections at once."""

    def run(port: int, _: str, end: float) -> None:
        def one() -> None:
            for body in itertools.cycle(bodies):
                if time.time() > end:
                    return
                head = f"{INFER}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("127.0.0.1", port)) as client,
                ):
                    client.sendall(head + body)
                    while client.recv(65536):
                        pass

        both(one)

    return run


def going(port: int, _: str, end: float) -> None:
    """Send two requests behind each other and go, again and again, on two connections at once."""

    def one() -> None:
        while time.time() < end:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), 2) as client,
            ):
                client.sendall(GOOD * 2)

    both(one)


def both(work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def messages(*data: bytes, flags: int = 0) -> Attack:
    """Ask with these messages again and again, on two connections at once."""

    def run(_: int, address: str, end: float) -> None:
        def one() -> None:
            for each in itertools.cycle(data):
                if time.time() > end:
                    return
                with contextlib.suppress(OSError), Http2(address) as connection:
                    connection.begin(1, "ModelInfer")
                    connection.send(1, each, flags=flags)
                    connection.answer()

        both(one)

    return run


def halves(size: int, count: int, calls: int = 1) -> Attack:
    """Announce messages of 60 MiB on so many connections, and send so much of each."""

    def run(_: int, address: str, end: float) -> None:
        while time.time() < end:
            with contextlib.ExitStack() as stack:
                for _ in range(count):
                    with contextlib.suppress(OSError):
                        connection = stack.enter_context(Http2(address))
                        for number in range(calls):
                            connection.begin(2 * number + 1, "ModelInfer")
                            if size:
                                connection.send(2 * number + 1, bytes(size), 60 * MIB)
                time.sleep(max(min(3.0, end - time.time()), 0))

    return run


def no_answers(_: int, address: str, end: float) -> None:
    """Take no answer."""
    with contextlib.ExitStack() as stack:
        while time.time() < end:
            for _ in range(3):
                with contextlib.suppress(OSError):
                    connection = stack.enter_context(Http2(address, window=0))
                    for number in range(STREAMS_MAX):
                        connection.begin(2 * number + 1, "ModelInfer")
                        connection.send(2 * number + 1, infer_request(ZEROS))
            time.sleep(0.1)


def tensor(data: str, shape: str = "[1, 64]") -> bytes:
    text = '{"inputs": [{"name": "image", "datatype": "FP32", "shape": %s, "data": %s}]}'
    return (text % (shape, data)).encode()


N = 4_000_000
JSON = (
    tensor("[" + "[1]," * (N // 4) + "[1]]"),
    tensor("[" * 31 + "1" + "]" * 31 + "," * 1000 + "[" * N),
    tensor("[" + "1," * (64 * (N // 128) - 1) + "1]", f"[{N // 128}, 64]"),
    tensor("[1]", "[" + "9," * (N // 2) + "9]"),
    b'{"inputs": [' + b'{"name":"","shape":[],"datatype":""},' * (N // 38) + b"]}",
    ('{"id": "%s", "inputs": []}' % ("\\u0001" * (N // 6) + "\U0001f600")).encode(),
)
FIELDS = "".join(f"{number:02x}: b\r\n" for number in range(100))
ATTACKS: dict[str, Attack] = {
    "nothing": lambda port, address, end: time.sleep(max(end - time.time(), 0)),
    "http: connections, silent": kept(b"", 1000),
    "http: connections, announced": kept(f"{BINARY}Content-Length: 9999\r\n\r\n{{".encode(), 1000),
    "http: bodies, announced": kept(f"{BINARY}Content-Length: {60 * MIB}\r\n\r\n{{".encode(), 64),
    "http: bodies, half": kept(
        f"{BINARY}Content-Length: {60 * MIB}\r\n\r\n".encode() + bytes(20 * MIB), 24
    ),
    "http: headers": kept(f"{INFER}{FIELDS}x: {'y' * 60_000}\r\nz: ".encode(), 900),
    "http: many behind one": kept(
        f"{INFER}Content-Length: 9\r\n\r\n123456789".encode() + b"GET /v2 HTTP/1.1\r\n\r\n" * 9000,
        50,
    ),
    "http: clients that go": going,
    "http: JSON": repeated(*JSON),
    "grpc: calls, silent": halves(0, 32, STREAMS_MAX),
    "grpc: messages, announced": halves(1, 64),
    "grpc: messages, half": halves(20 * MIB, 24),
    "grpc: fields": messages(
        *(b"\x0a\x06digits" + part * (30 * MIB // 2) for part in (b"\x2a\x00", b"\x3a\x00"))
    ),
    "grpc: compressed": messages(bytes(60_000), flags=1),
    "grpc: answers that nobody takes": no_answers,
}


@contextlib.contextmanager
def serving(bundle: str, policy: str) -> Iterator[tuple[int, int, str]]:
    """Process, port and address of gRPC of a server that is ready."""
    command = [sys.executable, "-m", "aotc_runtime", "serve", bundle, "--trust", policy, "--json"]
    command += ["--port", "0", "--grpc-port", "0", *OPTIONS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        port, address = 0, ""
        try:
            for line in process.stdout:
                event = json.loads(line)
                if "event" not in event:
                    sys.exit(line)  # why it does not start
                if event["event"] == "listening":
                    port, address = int(event["http"].rpartition(":")[2]), event["grpc"]
                if event["event"] == "ready":
                    break
            yield process.pid, port, address
        finally:
            process.kill()


def over_http(port: int, sent: bytes) -> str:
    """The status of an answer."""
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall(sent)
        return client.recv(65536)[9:12].decode()


def over_grpc(address: str) -> str:
    with Http2(address) as connection:
        connection.begin(1, "ModelInfer")
        connection.send(1, infer_request(ZEROS))
        return str(connection.answer()[0])


def resident(pid: int, what: str) -> int:
    text = Path(f"/proc/{pid}/status").read_text("ascii")
    found = re.search(rf"{what}:\s+(\d+)", text)
    assert found is not None
    return int(found[1]) * 1024


def measure(name: str, bundle: str, policy: str, seconds: float) -> str:
    """One line for an attack."""
    with serving(bundle, policy) as (pid, port, address):
        for _ in range(20):
            over_http(port, GOOD)
            over_grpc(address)
        base = resident(pid, "VmRSS")
        end = time.time() + seconds
        command = [sys.executable, "-m", "benchmarks.serve_attacks", "attack", name]
        attacker = subprocess.Popen([*command, str(port), address, str(end)], cwd=ROOT)
        asks: dict[str, Callable[[], str]] = {
            "http": lambda: over_http(port, GOOD),
            "grpc": lambda: over_grpc(address),
        }
        took: dict[str, list[float]] = {"http": [], "grpc": []}
        answers: Counter[str] = Counter()
        while time.time() < end:
            for protocol, ask in asks.items():
                started = time.perf_counter()
                try:
                    answers[f"{protocol} {ask()}"] += 1
                except OSError as error:
                    answers[f"{protocol} {type(error).__name__}"] += 1
                took[protocol].append(time.perf_counter() - started)
            with contextlib.suppress(OSError):  # which the good client has counted
                answers[f"ready {over_http(port, READY)}"] += 1
            time.sleep(0.01)
        with contextlib.suppress(subprocess.TimeoutExpired):
            attacker.wait(ENDING_SECONDS)
        attacker.kill()
        attacker.wait()
        peak = (resident(pid, "VmHWM") - base) / MEMORY
    figures = []
    for protocol, each in took.items():
        high = statistics.quantiles(each, n=100)[98] if len(each) > 1 else max(each)
        held = "within" if high <= GOAL else "beyond"
        middle = statistics.median(each)
        figures.append(f"{protocol} {1e3 * middle:.1f} ms, p99 {1e3 * high:.0f} ({held})")
    said = ", ".join(f"{count} x {answer}" for answer, count in sorted(answers.items()))
    return f"{name}: {'; '.join(figures)}; {peak:.2f} of --max-memory; {said}"


def main() -> None:
    """Print a line for each attack."""
    if sys.argv[1] == "attack":
        ATTACKS[sys.argv[2]](int(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
        return
    bundle, policy, *more = sys.argv[1:]
    seconds = float(more[0]) if more else SECONDS
    print(machine())
    for name in ATTACKS:
        if len(more) < 2 or more[1] in name:
            print(measure(name, bundle, policy, seconds), flush=True)


if __name__ == "__main__":
    main()
