"""The service of examples/systemd, started with its own command at a socket that it is passed."""

import configparser
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from served import Served
from waiting import SECONDS, until

from tests.conftest import Bundle
from tests.examples.started import EXAMPLES, copied


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


def test_hopeless_stays_down(digits_bundle: Bundle, vision_bundle: Bundle, tmp_path: Path) -> None:
    wrong = places((digits_bundle[0], vision_bundle[1]), tmp_path)
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
