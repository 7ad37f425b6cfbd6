"""Served bundles as tritonclient sees them, over HTTP and gRPC: `make test-serve`."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Served, serving
from waiting import SECONDS

OUT = Path(__file__).parents[2] / "out" / "serve"
SERVER, CLIENT = OUT / "server" / "bin" / "python", OUT / "client" / "bin" / "python"

pytestmark = [
    pytest.mark.serve,
    pytest.mark.skipif(
        not (SERVER.exists() and CLIENT.exists()),
        reason="needs grpcio and tritonclient: make test-serve",
    ),
]


@pytest.fixture(scope="module")
def served(types: tuple[Path, Path]) -> Iterator[Served]:
    options = ["--grpc-port", "0", "--control", "--max-tensor", "512K", "--max-body", "4M"]
    with serving([types[0]], [types[1]], *options, python=SERVER) as server:
        yield server


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_tritonclient_is_served(served: Served, protocol: str) -> None:
    address = served.grpc if protocol == "grpc" else f"127.0.0.1:{served.port}"
    script = Path(__file__).with_name("triton_client.py")
    done = subprocess.run(
        [CLIENT, script, protocol, address], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:]
    assert len(done.stdout.splitlines()) >= 70


def test_sigterm_ends_both_servers(types: tuple[Path, Path]) -> None:
    with serving([types[0]], [types[1]], "--grpc-port", "0", python=SERVER) as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(SECONDS) == 0


def test_the_messages_are_those_of_the_client() -> None:
    """Field by field: names, numbers and types."""
    program = """
import json, sys
def rows(find, names):
    return {name: [(f.name, f.number, f.type, f.is_repeated) for f in find(name).DESCRIPTOR.fields]
            for name in names}
"""
    ours = program + (
        "from aotc_serve.grpc.grpc_messages import MESSAGES, message\n"
        "print(json.dumps(rows(message, [n for n in MESSAGES if '.' not in n])))"
    )
    found = json.loads(subprocess.check_output([SERVER, "-c", ours]))
    theirs = program + (
        "from tritonclient.grpc import service_pb2\n"
        "print(json.dumps(rows(lambda name: getattr(service_pb2, name), json.loads(sys.argv[1]))))"
    )
    theirs = theirs.replace("f.is_repeated", "f.label == 3")
    known = json.loads(subprocess.check_output([CLIENT, "-c", theirs, json.dumps(list(found))]))
    # Two kinds of parameters are younger than Triton's.
    found["InferParameter"] = [f for f in found["InferParameter"] if f[1] <= 3]
    known["InferParameter"] = [f for f in known["InferParameter"] if f[1] <= 3]
    assert len(found) > 20 and found == known
