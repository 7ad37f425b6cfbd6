"""Processes as the examples start them, of what they name replaced by what is here."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import pytest
from served import Served
from waiting import SECONDS, until

from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
SERVER = ROOT / "out" / "examples" / "server" / "bin" / "python"
"""Of an environment that the Dockerfile's own line has filled: `make test-examples`."""

PYTHONS = [
    pytest.param(sys.executable, id="here"),
    pytest.param(
        str(SERVER),
        id="image",
        marks=[
            pytest.mark.examples,
            pytest.mark.skipif(not SERVER.exists(), reason="the image's: make test-examples"),
        ],
    ),
]


def program(python: str, arguments: Sequence[str], places: dict[str, Path | str]) -> list[str]:
    """The command line of a container. places: what stands in it, and what is meant here."""
    longest_first = sorted(places, key=len, reverse=True)
    named = re.compile("|".join(map(re.escape, longest_first)))
    return [
        str(Path(python).parent / "aotc-runtime"),
        *(
            named.sub(lambda found: str(places[found[0]]), argument)
            for argument in arguments
            # The tests' environment has no grpcio.
            if "grpc" not in argument or python != sys.executable
        ),
    ]


@contextmanager
def server(command: Sequence[str], **environment: str) -> Iterator[Served]:
    """A server that is ready, or at least listens. It has ended after the block."""
    told = command if "--json" in command else [*command, "--json"]
    given = {**os.environ, **environment}
    with subprocess.Popen(
        told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given
    ) as process:
        try:
            yield Served(process)
        finally:
            process.kill()


def probe(served: Served, described: dict[str, object], ports: dict[str, int]) -> int:
    """The status that a probe of a container gets. ports: of the container, by name."""
    asked = described["httpGet"]
    assert isinstance(asked, dict) and asked.keys() == {"path", "port"}
    assert ports.get(asked["port"], asked["port"]) in ports.values()
    return served.ask("GET", asked["path"])[0]


def lives_by_its_probes(served: Served, container: dict[str, object], grace: int) -> None:
    """Started, ready, live; and after SIGTERM live, but not ready, until it has ended well."""
    listed = container["ports"]
    assert isinstance(listed, list)
    ports = {str(p.get("name", p["containerPort"])): int(p["containerPort"]) for p in listed}
    arguments = container["args"]
    assert isinstance(arguments, list)
    given = dict(a[2:].split("=") for a in arguments if a.startswith("--") and "=" in a)
    assert int(given.get("port", 8000)) in ports.values()
    assert float(given["drain-delay"]) + float(given["drain-seconds"]) < grace
    probes = {name: container.get(name) for name in ("startupProbe", "readinessProbe")}
    for described in filter(None, probes.values()):
        until(lambda d=described: probe(served, d, ports) == 200, "it is ready", served.process)
    assert probe(served, container["livenessProbe"], ports) == 200
    served.process.send_signal(signal.SIGTERM)
    served.wait_for("ending")
    assert probe(served, container["readinessProbe"], ports) == 503
    assert probe(served, container["livenessProbe"], ports) == 200
    assert served.process.wait(SECONDS) == 0


def copied(bundle: tuple[Path, Path], folder: Path) -> dict[str, Path | str]:
    """The policy and the bundle, where the examples mount them."""
    for name in ("policy", "models", "store"):
        (folder / name).mkdir()
    shutil.copy(bundle[0], folder / "models" / "digits.aotb")
    shutil.copy(bundle[1], folder / "policy" / "trust.toml")
    return {
        "/policy": folder / "policy",
        "/mnt/models": folder / "models",
        "/models": folder / "models",
    }


class Kept(ThreadingHTTPServer):
    """In place of a service that is asked to change something: keeps paths, headers and bodies."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Keeping)
        self.taken: list[tuple[str, dict[str, str], bytes]] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Keeping(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Kept)
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, dict(self.headers), data))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_PATCH = do_POST

    def log_message(self, format: str, *args: object) -> None:
        pass
