"""Memory that requests take, against what the server asks its account for.

`out/serve/server/bin/python -m benchmarks.serve_costs BUNDLE POLICY`, as `serve_attacks`. What
Python makes of bytes is traced; connections and calls are measured by the memory of a server that
holds many of them. It fails if any takes more than `COSTS` says.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from msgspec import UNSET

from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.protobuf_wire import WireError
from aotc_serve.grpc.grpc_wire import read_request
from aotc_serve.http.json_inference import read_request as read_json
from aotc_serve.inference.protocol_tensors import Port, from_json, take_nothing, to_json
from aotc_serve.inference.request_memory import COSTS
from benchmarks.measure import machine
from benchmarks.serve_attacks import BINARY, INFER, JSON, resident, serving
from tests.servers.http2 import Http2

PORT = Port("image", "FP32", np.dtype(np.float32), (-1, 64))


def traced(work: Callable[[], object]) -> int:
    """The most that Python held at once, beside what it held before."""
    tracemalloc.start()
    with contextlib.suppress(AotcError, WireError):
        work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def of_json(document: bytes) -> float:
    """Bytes for each byte of a document, with the tensor in it."""

    def work() -> object:
        request = read_json(document)
        return [
            from_json(PORT, [31250, 64], each.data)
            for each in request.inputs
            if each.data is not UNSET
        ]

    return traced(work) / len(document)


def held(bundle: str, policy: str, clients: Callable[[int, str], object], count: int) -> float:
    """Bytes of a server for each of so many clients. clients: makes one, which stays open."""
    with serving(bundle, policy) as (pid, port, address):
        clients(port, address)
        before = resident(pid, "VmRSS")
        kept = [clients(port, address) for _ in range(count)]
        time.sleep(2)
        found = (resident(pid, "VmRSS") - before) / count
        del kept
    return found


def connected(sent: str) -> Callable[[int, str], object]:
    def client(port: int, _: str) -> object:
        found = socket.create_connection(("127.0.0.1", port))
        found.sendall(sent.encode())
        return found

    return client


def calling(count: int) -> Callable[[int, str], object]:
    def client(_: int, address: str) -> object:
        found = Http2(address)
        for number in range(count):
            found.begin(2 * number + 1, "ModelInfer")
        return found

    return client


def measured(bundle: str, policy: str) -> Iterator[tuple[str, float]]:
    """Each of the costs."""
    yield "json", max(map(of_json, JSON))
    values = np.random.default_rng(0).random(10**6)
    yield "json_value", traced(lambda: to_json(PORT, values)) / values.size
    for part in (b"\x2a\x00", b"\x32\x00", b"\x3a\x00"):
        message = memoryview(part * 16_000)
        yield "grpc_field", traced(partial(read_request, message, take_nothing)) / 16_000
    announced = f"{BINARY}Content-Length: 9999\r\n\r\n{{"
    long = f"{INFER}Content-Length: 9999\r\nx: {'y' * 60_000}\r\n\r\n{{"
    many = f"{INFER}Content-Length: 9\r\n" + "".join(f"{n:03}: b\r\n" for n in range(120))
    base = held(bundle, policy, connected(announced), 800)
    yield "connection", base
    yield "header", (held(bundle, policy, connected(long), 400) - base) / 60_000
    yield "field", (held(bundle, policy, connected(f"{many}\r\n{{"), 400) - base) / 120
    grpc = held(bundle, policy, calling(0), 400)
    yield "grpc_connection", grpc
    yield "grpc_call", (held(bundle, policy, calling(100), 8) - grpc) / 100


def main() -> None:
    """Print a line for each."""
    print(machine())
    wrong = False
    for name, found in measured(*sys.argv[1:3]):
        stated = getattr(COSTS, name)
        wrong |= found > stated
        print(f"{name}: {found:.1f} of {stated} bytes{'' if found <= stated else ', more'}")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
