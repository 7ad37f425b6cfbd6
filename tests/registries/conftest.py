"""Registries in this process, and clients that do not wait long."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tls_server import tls_context

from aotc.base.stages import Bundle
from aotc.bundle.write.bundle_writer import Form
from aotc.commands.registry.bundle_pull import pull
from aotc.commands.registry.bundle_push import Pushed, push
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_serve.http_client import HttpClient
from aotc_serve.oci.docker_credentials import NOBODY, Credentials
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_client import Repository, RetryLimits
from aotc_serve.store import Store, store_pull
from tests.conftest import ROOT
from tests.registries.faults import DATA, DIGEST
from tests.registries.oci_server import OciServer

GOLDEN = ROOT / "tests" / "golden"
LAYERS = GOLDEN / "layers.aotb"
"""One target and two attestations."""

REPO = "models/digits"
TAG = f"{REPO}:1.0.0"

Connect = Callable[..., Repository]


def refused(
    call: Callable[..., object], *arguments: Any, kind: type[AotcError] = AotcError, **more: Any
) -> Finding:
    """The finding with which a call is refused, by an error of this kind."""
    with pytest.raises(kind) as caught:
        call(*arguments, **more)
    (finding, *_) = caught.value.findings
    return finding


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat a request as often as in production, with pauses of milliseconds."""
    pause = RetryLimits.pause
    monkeypatch.setattr(RetryLimits, "pause", lambda each, failures: pause(each, failures) / 1000)


@pytest.fixture
def server() -> Iterator[OciServer]:
    running = OciServer()
    yield running
    running.close()


@pytest.fixture
def other() -> Iterator[OciServer]:
    """Another host, which a registry may name."""
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
            HttpClient(ca, seconds),
            lambda: credentials,
            RetryLimits(tries, 0.001, 0.002),
        )
        made.append(found)
        return found

    yield connect
    for each in made:
        each.close()


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry, and what bundles are pushed to it and pulled from it."""

    server: OciServer
    connect: Connect

    def push(self, path: Path = LAYERS, place: str = "models/digits", **more: Any) -> Pushed:
        """Push a bundle as `aotc push` does, without a policy."""
        return push(open_streamed(path), self.connect(place), None, time.time(), **more)

    def pull(self, path: Path, place: str = TAG, form: Form = Form.ARCHIVE, **more: Any) -> Bundle:
        """Pull a bundle into a file or a folder as `aotc pull` does."""
        return pull(self.connect(place), path, form, **more)

    def keep(self, store: Store, place: str = TAG) -> str:
        """Pull a bundle into a store; its root digest."""
        return store_pull.pull(self.connect(place), store).root.digest

    @property
    def layers(self) -> list[str]:
        """Blobs that were fetched and are no document."""
        server = self.server
        small = {d for (_, d), data in server.blobs.items() if data[:1] == b"{"}
        asked = [each.path.rpartition("/")[2] for each in server.asked if each.method == "GET"]
        return [d for d in asked if (REPO, d) in server.blobs and d not in small]


@pytest.fixture
def registry(server: OciServer, connect: Connect) -> Registry:
    return Registry(server, connect)


@pytest.fixture(params=[True, False], ids=["referrers", "tags"])
def either(request: pytest.FixtureRequest, registry: Registry) -> Registry:
    """A registry with the referrers API, and one without."""
    registry.server.referrers = request.param
    return registry


@pytest.fixture
def stored(server: OciServer) -> None:
    """Have the blob of `faults` in the registry."""
    server.blobs[REPO, DIGEST] = DATA


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[OciServer]:
    """A registry with TLS, whose own authority is `ca.pem`."""
    running = OciServer(tls_context(tmp_path))
    yield running
    running.close()
