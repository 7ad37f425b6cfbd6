"""The application, the systemd units and the image of examples/."""

import configparser
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from served import Served
from waiting import SECONDS, until

import aotc_runtime
from tests.conftest import ROOT, Bundle
from tests.examples.started import EXAMPLES, copied, program, server

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


def unit(name: str) -> configparser.ConfigParser:
    read = configparser.ConfigParser(interpolation=None, strict=True)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(EXAMPLES / "systemd" / name, "utf-8")
    return read


def command(places: dict[str, Path | str]) -> list[str]:
    """ExecStart=, with what is here."""
    text = unit("aotc.service")["Service"]["ExecStart"]
    for there, here in places.items():
        text = text.replace(there, str(here))
    return [*text.split(), "--json"]


def places(bundle: Bundle, folder: Path) -> dict[str, Path | str]:
    mounted = copied(bundle, folder)
    return {
        "/opt/aotc/bin": Path(sys.executable).parent,
        "/var/lib/aotc": mounted["/models"],
        "/etc/aotc": mounted["/policy"],
    }


@pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None, reason="needs systemd-socket-activate"
)
def test_service_starts_by_connection_and_reloads(digits_bundle: Bundle, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    listen = f"--listen=127.0.0.1:{port}"
    started = ["systemd-socket-activate", listen, *command(places(digits_bundle, tmp_path))]
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as by:
        try:
            until(lambda: connects(port), "systemd listens", by)
            served = Served(by)
            assert served.port == port
            served.wait_for("ready")
            assert served.get("/v2/models/digits")[0] == 200
            os.utime(tmp_path / "models" / "digits.aotb", (1, 1))
            assert unit("aotc.service")["Service"]["ExecReload"] == "/bin/kill -HUP $MAINPID"
            by.send_signal(signal.SIGHUP)
            served.wait_for("serving", 2)
            by.terminate()
            assert by.wait(SECONDS) == 0
        finally:
            by.kill()


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def test_hopeless_stays_down(digits_bundle: Bundle, train_bundle: Bundle, tmp_path: Path) -> None:
    wrong = places((digits_bundle[0], train_bundle[1]), tmp_path)
    done = subprocess.run(command(wrong), capture_output=True, text=True, check=False)
    service = unit("aotc.service")["Service"]
    assert str(done.returncode) in service["RestartPreventExitStatus"].split()
    assert service["Restart"] == "on-failure"


def test_the_units_agree() -> None:
    service, listening = unit("aotc.service"), unit("aotc.socket")
    assert service["Unit"]["Requires"] == "aotc.socket"
    assert listening["Socket"]["ListenStream"].rpartition(":")[2].isdigit()
    arguments = service["Service"]["ExecStart"].split()
    seconds = float(arguments[arguments.index("--drain-seconds") + 1])
    assert seconds < float(service["Service"]["TimeoutStopSec"])


Line = tuple[str, str]


def stages() -> dict[str, list[Line]]:
    """Instructions by stage: the word, and what follows it."""
    found: dict[str, list[Line]] = {}
    text = (EXAMPLES / "docker" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            stage = found.setdefault(rest.rpartition(" AS ")[2], [])
        if word and not word.startswith("#"):
            stage.append((word, rest))
    return found


def only(stage: str, word: str) -> str:
    (found,) = [rest for each, rest in stages()[stage] if each == word]
    return found


def test_what_the_server_is_installed_from_is_in_this_repository() -> None:
    copied_ = [rest.split()[:-1] for word, rest in stages()["serve"] if word == "COPY"]
    assert all((ROOT / source).exists() for sources in copied_ for source in sources)
    installed = re.findall(r"'/src/([a-z/]+)\[([a-z]+)\]'", only("serve", "RUN"))
    assert installed == [("runtime", "xla"), ("runtime/serve", "serve")]
    for folder, extra in installed:
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]
        assert extra in project["optional-dependencies"]
    loader = tomllib.loads((ROOT / "runtime" / "pyproject.toml").read_text("utf-8"))["project"]
    assert json.loads(only("serve", "ENTRYPOINT"))[0] in loader["scripts"]


def test_nothing_in_it_runs_as_root() -> None:
    user = int(only("serve", "USER"))
    manifests = [*EXAMPLES.glob("kubernetes/*.yaml"), *EXAMPLES.glob("kserve/*.yaml")]
    assert user > 0 and all(f"runAsUser: {user}" in p.read_text("utf-8") for p in manifests)


def test_without_arguments_it_says_what_it_can() -> None:
    command = program(sys.executable, json.loads(only("serve", "CMD")), {"/src": ROOT})
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "serve" in done.stdout and "verify" in done.stdout


def test_with_a_bundle_it_serves_that(digits_bundle: Bundle, tmp_path: Path) -> None:
    assert only("with-bundle", "COPY") == "digits.aotb trust.toml /models/"
    places = copied(digits_bundle, tmp_path)
    (tmp_path / "policy" / "trust.toml").rename(tmp_path / "models" / "trust.toml")
    command = program(sys.executable, json.loads(only("with-bundle", "CMD")), places)
    with server([*command, "--port", "0"]) as served:
        served.wait_for("ready")
        assert served.infer("digits", {"image": ("FP32", np.ones((1, 64), np.float32))})[0] == 200
