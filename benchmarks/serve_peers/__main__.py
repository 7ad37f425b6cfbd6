"""Three models served by us and by others, side by side.

`python -m benchmarks.serve_peers [--models mlp,encoder,decode] [--engines xla,…] [--kserve PYTHON]
[--clients N]`, in an environment with the extras `serve` and `xla` of the loader, jax, onnx,
onnxruntime, uvloop and safetensors. The MLP of `manifests/digits`, a row at a time; the encoder of
`manifests/encoder` with texts of eight lengths; a step of `manifests/lm` with its cache both ways.
Ours over REST and gRPC, alone and joined; jax.jit and ONNX Runtime behind starlette and uvicorn,
with the same binary tensors, behind grpc.aio and behind grpc's server of threads; KServe's server
with ONNX Runtime, if a Python that has both is named; and all three in process. All servers of a
model run at the same time, and so many clients with a connection each ask them in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import aotc_runtime
from aotc_serve.inference.served_models import models_of
from benchmarks.measure import machine
from benchmarks.serve import Client, Listening, serving
from benchmarks.serve_peers import graphs
from benchmarks.serve_peers.measured import Measured, in_process, over_grpc, over_rest
from benchmarks.serve_peers.models import (
    ENGINES,
    EXAMPLES,
    FOLDER,
    PROGRAMS,
    bundle_of,
    ported,
)

CLIENTS, ROUNDS, SECONDS = 4, 5, 0.7


@contextlib.contextmanager
def other(*command: str) -> Iterator[list[Listening]]:
    """A server of somebody else's, once it answers; one for each port that it prints."""
    log = (FOLDER / "peers.log").open("a")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        assert process.stdout is not None
        try:
            ports = [int(port) for port in process.stdout.readline().split()]
            if not ports:
                raise SystemExit(f"{command} did not start: {log.name} says why")
            for port in ports:
                for _ in range(600):
                    with contextlib.suppress(OSError):
                        Client(port).close()
                        break
                    time.sleep(0.1)
            yield [Listening(port, process.pid) for port in ports]
        finally:
            process.kill()


def measured(
    name: str, engines: list[str], kserve: str, clients: int
) -> list[tuple[bool, Measured]]:
    """Every way of a model, and whether it is a peer's. engines: among which ours is tuned."""
    bundle, policy = bundle_of(name, engines)
    requests = PROGRAMS[name].requests()
    loaded = aotc_runtime.load(bundle, trust=policy)
    model = ported(loaded, PROGRAMS[name].entry)
    (FOLDER / name / "model.json").write_bytes(msgspec.json.encode(model))
    ours = models_of(loaded)[model.model]
    graphs.write(name, ours.outputs)
    with contextlib.ExitStack() as stack:
        call = in_process(lambda arrays: ours.call(list(arrays)).result, requests)
        every = [(False, Measured("aotc", "in process", call))]
        for said, options in (("alone", ()), ("joined", ("--max-delay", "1"))):
            server = stack.enter_context(serving(bundle, policy, "--grpc-port", "0", *options))
            way = over_rest(server.port, model, requests)
            every.append((False, Measured(f"aotc, {said}", "REST", way, server)))
            way = over_grpc(server.grpc, model, requests)
            every.append((False, Measured(f"aotc, {said}", "gRPC", way, server)))
        for engine, made in ENGINES.items():
            way = in_process(made(name), requests)
            every.append((True, Measured(engine, "in process", way)))
            for stack_name in ("starlette", "grpc.aio", "grpc threads"):
                command = (sys.executable, "-m", "benchmarks.serve_peers.peer", stack_name)
                (peer,) = stack.enter_context(other(*command, engine, name))
                if stack_name == "starlette":
                    kind, way = "REST", over_rest(peer.port, model, requests)
                else:
                    kind, way = "gRPC", over_grpc(f"127.0.0.1:{peer.port}", model, requests)
                every.append((True, Measured(f"{stack_name}, {engine}", kind, way, peer)))
        if kserve:
            script = str(Path(__file__).with_name("kserve_peer.py"))
            rest, grpc = stack.enter_context(other(kserve, script, str(FOLDER / name)))
            way = over_rest(rest.port, model, requests)
            every.append((True, Measured("KServe, onnxruntime", "REST", way, rest)))
            way = over_grpc(f"127.0.0.1:{grpc.port}", model, requests)
            every.append((True, Measured("KServe, onnxruntime", "gRPC", way, grpc)))
        expected = call.first()
        for _, each in every:
            each.check(expected)
            each.round(SECONDS / 2, clients)
            each.forget()
        for _ in range(ROUNDS):
            for _, each in every:
                each.round(SECONDS, clients)
    loaded.close()
    return every


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve_peers")
    parser.add_argument("--models", default=",".join(PROGRAMS))
    parser.add_argument("--engines", default="xla", help="of ours; of several, the best is taken")
    parser.add_argument("--kserve", default="", metavar="PYTHON")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    options = parser.parse_args()
    sys.path.insert(0, str(EXAMPLES))
    print(machine())
    for name in options.models.split(","):
        every = measured(name, options.engines.split(","), options.kserve, options.clients)
        best = {
            kind: max(each.rate for is_peer, each in every if is_peer and each.kind == kind)
            for kind in ("in process", "REST", "gRPC")
        }
        print(f"\n{name}, {options.clients} clients, ours tuned among {options.engines}\n")
        print("| | server | requests/s | of the best peer | p50 ms | p99 ms | processor µs |")
        print("|---|---|---|---|---|---|---|")
        for _, each in sorted(every, key=lambda both: -best[both[1].kind]):
            print(each.row(best[each.kind]))


if __name__ == "__main__":
    main()
