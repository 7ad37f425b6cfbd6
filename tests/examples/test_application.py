"""The application of examples/gunicorn, started as its page says and asked."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from waiting import SECONDS, until

import aotc_runtime
from tests.conftest import ROOT, Bundle
from tests.examples.started import EXAMPLES

FOLDER = EXAMPLES / "gunicorn"
GUNICORN = ROOT / "out" / "examples" / "server" / "bin" / "gunicorn"
IMAGE = np.random.default_rng(3).random((8, 64), np.float32)


@contextmanager
def answering(command: Sequence[str], bundle: Bundle, port: int) -> Iterator[subprocess.Popen[str]]:
    given = {**os.environ, "BUNDLE": str(bundle[0]), "TRUST": str(bundle[1])}
    with subprocess.Popen(
        command, cwd=FOLDER, env=given, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(lambda: status(port) == 200, "it answers", process)
            yield process
        finally:
            process.terminate()
            process.wait(SECONDS)


def status(port: int) -> int:
    try:
        return ask(port, "GET", "/ready")[0]
    except OSError:
        return 0


def ask(port: int, method: str, path: str, body: object = None) -> tuple[int, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def check(port: int, bundle: Bundle) -> None:
    """It classifies as the bundle does, and says what is wrong with other requests."""
    with aotc_runtime.load(bundle[0], trust=bundle[1]) as loaded:
        expected = loaded["predict"](IMAGE)["label"].tolist()
    assert ask(port, "POST", "/classify", {"image": IMAGE.tolist()}) == (200, {"label": expected})
    assert ask(port, "POST", "/classify", {})[0] == 400
    refused, document = ask(port, "POST", "/classify", {"image": [[1.0]]})
    assert refused == 422 and "AOTC-E6" in json.dumps(document)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def test_uvicorn_serves_it(digits_bundle: Bundle, port: int) -> None:
    command = [str(Path(sys.executable).parent / "uvicorn"), "app:app", "--port", str(port)]
    with answering([*command, "--log-level", "warning"], digits_bundle, port):
        check(port, digits_bundle)


@pytest.mark.examples
@pytest.mark.skipif(not GUNICORN.exists(), reason="needs gunicorn: make test-examples")
def test_gunicorn_workers_serve_what_master_verified(digits_bundle: Bundle, port: int) -> None:
    command = [str(GUNICORN), "-c", "gunicorn.conf.py", "--bind", f"127.0.0.1:{port}", "app:app"]
    with answering(command, digits_bundle, port) as process:
        check(port, digits_bundle)
        process.send_signal(signal.SIGHUP)
        check(port, digits_bundle)
