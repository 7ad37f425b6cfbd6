"""Served bundles as tritonclient sees them, over HTTP and gRPC: `make test-serve`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from served import Served, serving

from tests.servers.typed_program import build_types

OUT = Path(__file__).parents[2] / "out" / "serve"
SERVER, CLIENT = OUT / "server" / "bin" / "python", OUT / "client" / "bin" / "python"

pytestmark = [
    pytest.mark.serve,
    pytest.mark.skipif(
        not (SERVER.exists() and CLIENT.exists()),
        reason="needs grpcio and tritonclient: make test-serve",
    ),
]

Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="module")
def types(once: Once) -> tuple[Path, Path]:
    folder = once("types", build_types)
    return folder / "types.aotb", folder / "trust.toml"


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
