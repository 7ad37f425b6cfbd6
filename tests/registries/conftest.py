"""Registries in this process, and clients that do not wait long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aotc_runtime.registries.client import Repository, Tries
from aotc_runtime.registries.credentials import NOBODY, Credentials
from aotc_runtime.registries.references import parse
from aotc_runtime.registries.transport import Transport
from tests.conftest import ROOT
from tests.registries.oci_server import OciServer

GOLDEN = ROOT / "tests" / "golden"
LAYERS = GOLDEN / "layers-1.2.aotb"
"""One target and two attestations."""

Connect = Callable[..., Repository]


@pytest.fixture
def server() -> Iterator[OciServer]:
    running = OciServer()
    yield running
    running.close()


@pytest.fixture
def connect(server: OciServer) -> Iterator[Connect]:
    """A repository of the server; place: what follows its address."""
    made: list[Repository] = []

    def connect(
        place: str = "models/digits",
        *,
        tries: int = 4,
        credentials: Credentials = NOBODY,
        seconds: float = 10.0,
        ca: Path | None = None,
        address: str = "",
    ) -> Repository:
        found = Repository(
            parse(f"oci://{address or server.address}/{place}"),
            Transport(ca, seconds),
            lambda: credentials,
            Tries(tries, 0.001, 0.002),
        )
        made.append(found)
        return found

    yield connect
    for each in made:
        each.close()
