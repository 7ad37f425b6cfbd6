"""Cost of a served call over a bare echo of the same stack, and the gain by joining requests.

`python -m benchmarks.serve [ROUNDS]`. The server and the echo (starlette and uvicorn alone, which
give back the body that they read) run side by side, in processes of their own, and one client with
one connection asks them in turns. Ratios of medians; both sides are of one run. The call itself, in
process, is told beside them, since an echo computes nothing.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from benchmarks.measure import OUT, machine

ROUNDS = 15
CALLS = 60
BUDGET = 1.3
CLIENTS, JOINED_SECONDS = 16, 3.0

PROGRAM = """\
import jax.numpy as jnp


def same(x):
    return x + 0


def layers(x):
    for number in range(4):
        x = jnp.tanh(x @ (jnp.eye(512) * (1 + number / 8)))
    return x
"""

MANIFEST = """\
schema = 1
name = "served"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]

[dimensions.batch]
range = [1, 16]
profiles = [1, 4, 16]

[entry_points.small]
function = "program:same"
inputs.x = { shape = [1, 64], dtype = "float32" }

[entry_points.large]
function = "program:same"
inputs.x = { shape = [256, 1024], dtype = "float32" }

[entry_points.layers]
function = "program:layers"
inputs.x = { shape = ["batch", 512], dtype = "float32" }
out_of_profile.batch = "split"
"""

ECHO = """
import asyncio, socket, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def echo(request):
    return Response(await request.body(), media_type="application/octet-stream")

async def main():
    # With its protocol named, asyncio switches off Nagle's algorithm, as it does for uvicorn's own.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    app = Starlette(routes=[Route("/{path:path}", echo, methods=["POST"])])
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none",
                            http="httptools", server_header=False)
    await uvicorn.Server(config).serve(sockets=[listening])

try:
    import uvloop
    factory = uvloop.new_event_loop
except ImportError:
    factory = None
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(main())
"""


def made(folder: Path) -> tuple[Path, Path]:
    """The bundle, and its policy."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.py").write_text(PROGRAM)
    (folder / "manifest.toml").write_text(MANIFEST)
    signer = LocalSigner.ephemeral()
    build(folder / "manifest.toml", folder / "served.aotb", BuildOptions(signer=signer))
    (folder / "trust.toml").write_text(policy_text("served", [signer.public_pem()]))
    return folder / "served.aotb", folder / "trust.toml"


class Listening(NamedTuple):
    """A server's process, and where it listens."""

    port: int
    pid: int
    grpc: str = ""

    def processor_seconds(self) -> float:
        """Of all its threads, so far."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text("ascii").split()[0]) for task in tasks) / 1e9


@contextlib.contextmanager
def echoing() -> Iterator[Listening]:
    """The echo."""
    command = [sys.executable, "-c", ECHO]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Listening(int(process.stdout.readline()), process.pid)
        finally:
            process.terminate()


@contextlib.contextmanager
def serving(bundle: Path, policy: Path, *options: str) -> Iterator[Listening]:
    """The server, once it is ready."""
    command = [sys.executable, "-m", "aotc_runtime", "serve", str(bundle), "--trust", str(policy)]
    command += ["--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port, grpc = 0, ""
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "listening":
                    port = int(event["http"].rpartition(":")[2])
                    grpc = event.get("grpc", "")
                if event["event"] == "ready":
                    break
            yield Listening(port, process.pid, grpc)
        finally:
            process.terminate()


def request(model: str, array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bytes:
    """The bytes of an inference request with binary data both ways."""
    tensor = {
        "name": "x",
        "datatype": "FP32",
        "shape": array.shape,
        "parameters": {"binary_data_size": array.nbytes},
    }
    document = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    header = json.dumps(document).encode()
    return (
        (
            f"POST /v2/models/served.{model}/infer HTTP/1.1\r\nHost: x\r\n"
            f"Inference-Header-Content-Length: {len(header)}\r\n"
            f"Content-Length: {len(header) + array.nbytes}\r\n\r\n"
        ).encode()
        + header
        + array.tobytes()
    )


class Client:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._room = bytearray(2**22)

    def ask(self, sent: bytes) -> float:
        """Seconds until the answer is there."""
        started = time.perf_counter()
        self._socket.sendall(sent)
        view, end, whole = memoryview(self._room), 0, -1
        while whole < 0 or end < whole:
            got = self._socket.recv_into(view[end:])
            if not got:
                raise ConnectionError("closed before the answer was there")
            end += got
            if whole < 0 and (at := self._room.find(b"\r\n\r\n", 0, end)) >= 0:
                head = bytes(self._room[:at])
                if not head.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(head.decode() + bytes(self._room[at:end]).decode())
                found = re.search(rb"\r\ncontent-length: (\d+)", head)
                assert found is not None
                whole = at + 4 + int(found[1])
        return time.perf_counter() - started

    def close(self) -> None:
        self._socket.close()


class Overhead(NamedTuple):
    """A server over the echo: its time, the time of the call itself, and processor time."""

    name: str
    time: float
    call: float
    processor: float


def overhead(bundle: Path, policy: Path, rounds: int) -> Iterator[Overhead]:
    """Of each case."""
    loaded = aotc_runtime.load(bundle, trust=policy)
    random = np.random.default_rng(0)
    with echoing() as echo, serving(bundle, policy) as server:
        ours, bare = Client(server.port), Client(echo.port)
        for name, shape in (("small", (1, 64)), ("large", (256, 1024))):
            array = random.random(shape, np.float32)
            sent, call = request(name, array), loaded[name]
            for client in (ours, bare):
                for _ in range(CALLS):
                    client.ask(sent)
            ratios, calls, processor = [], [], []
            for _ in range(rounds):
                marks = [echo.processor_seconds(), server.processor_seconds()]
                theirs = _median(bare.ask, sent)
                ratios.append(_median(ours.ask, sent) / theirs)
                calls.append(_median(_timed, call, array) / theirs)
                used = [echo.processor_seconds() - marks[0], server.processor_seconds() - marks[1]]
                processor.append(used[1] / used[0])
            yield Overhead(name, *map(statistics.median, (ratios, calls, processor)))
        ours.close()
        bare.close()


def _median(measure: Callable[..., float], *arguments: object) -> float:
    return statistics.median(measure(*arguments) for _ in range(CALLS))


def _timed(call: Callable[[object], object], array: object) -> float:
    started = time.perf_counter()
    call(array)
    return time.perf_counter() - started


def throughput(bundle: Path, policy: Path, *options: str) -> float:
    """Calls of `layers` with one row each that so many clients get answered in a second."""
    sent = request("layers", np.random.default_rng(1).random((1, 512), np.float32))
    with serving(bundle, policy, *options) as server:
        clients = [Client(server.port) for _ in range(CLIENTS)]
        counts = [0] * CLIENTS
        end = time.perf_counter() + JOINED_SECONDS

        def run(number: int) -> None:
            while time.perf_counter() < end:
                clients[number].ask(sent)
                counts[number] += 1

        threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for client in clients:
            client.close()
    return sum(counts) / JOINED_SECONDS


def main() -> None:
    """Print a line for each figure."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(machine())
    bundle, policy = made(OUT / "serve")
    for name, ratio, call, processor in overhead(bundle, policy, rounds):
        what = {"small": "64 floats", "large": "1 MiB"}[name]
        held = "within" if ratio - call <= BUDGET else "beyond"
        print(
            f"{what}: {ratio:.2f} x the echo, of which the call itself is {call:.2f}; "
            f"{ratio - call:.2f} without it, {held} {BUDGET}; "
            f"{processor:.2f} x the processor time, the call included"
        )
    ratios = []
    for _ in range(3):
        alone = throughput(bundle, policy)
        ratios.append(throughput(bundle, policy, "--max-delay", "1") / alone)
    print(f"joined, {CLIENTS} clients: {statistics.median(ratios):.2f} x the throughput")


if __name__ == "__main__":
    main()
