"""A socket that systemd has opened: the server listens there, or says what is wrong with it."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from served import Served
from waiting import until

from tests.conftest import Bundle

# As systemd does it: the sockets lie at 3 and above, and LISTEN_PID is that of the process itself.
START = """
import os, sys
number, pid, *command = sys.argv[1:]
os.environ["LISTEN_PID"] = pid or str(os.getpid())
os.environ["LISTEN_FDS"] = number
os.execv(command[0], command)
"""


def passing(
    digits: Bundle, sockets: list[socket.socket], number: str = "", pid: str = ""
) -> subprocess.Popen[str]:
    """A server that is given sockets. number, pid: what it is told in place of the truth."""
    server = [sys.executable, "-m", "aotc_runtime", "serve", str(digits[0]), "--trust"]
    server += [str(digits[1]), "--json", "--port", "0"]
    command = [sys.executable, "-c", START, number or str(len(sockets)), pid, *server]
    # dup2 in the shell that starts it: subprocess keeps numbers as they are.
    moves = " ".join(f"{3 + n}<&{each.fileno()}" for n, each in enumerate(sockets))
    for each in sockets:
        each.set_inheritable(True)
    return subprocess.Popen(
        ["bash", "-c", f'exec "$@" {moves}', "bash", *command],
        pass_fds=[each.fileno() for each in sockets],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def listening(family: int = socket.AF_INET, address: object = ("127.0.0.1", 0)) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.bind(address)
    made.listen(16)
    return made


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    made: list[socket.socket] = []
    yield made
    for each in made:
        each.close()


def refused(process: subprocess.Popen[str]) -> dict[str, str]:
    """The one finding of a server that did not start."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    (finding,) = json.loads(out.splitlines()[-1])["findings"]
    assert finding["code"] == "AOTC-E782"
    return dict(finding)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["v4", "v6"])
def test_socket_is_taken(family: int, digits_bundle: Bundle, sockets: list[socket.socket]) -> None:
    address = ("127.0.0.1", 0) if family == socket.AF_INET else ("::1", 0)
    try:
        sockets.append(listening(family, address))
    except OSError:
        pytest.skip("no IPv6 here")
    waiting = socket.create_connection(sockets[0].getsockname()[:2], timeout=120)
    waiting.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    with passing(digits_bundle, sockets) as process:
        try:
            served = Served(process)
            assert served.port == sockets[0].getsockname()[1]
            assert waiting.recv(4096).startswith(b"HTTP/1.1 200")
            served.wait_for("ready")
            process.terminate()
            assert process.wait(120) == 0
        finally:
            process.kill()
            waiting.close()


def test_next_server_reuses_socket(digits_bundle: Bundle, sockets: list[socket.socket]) -> None:
    sockets.append(listening())
    for _ in range(2):
        with passing(digits_bundle, sockets) as process:
            try:
                served = Served(process)
                served.wait_for("ready")
                assert served.get("/v2/models/digits")[0] == 200
                process.terminate()
                assert process.wait(120) == 0
            finally:
                process.kill()


@pytest.mark.parametrize("said", [{"pid": "1"}, {"number": "0"}], ids=["another", "none"])
def test_sockets_for_another_process_are_left_alone(
    said: dict[str, str], digits_bundle: Bundle, sockets: list[socket.socket]
) -> None:
    sockets.append(listening())
    with passing(digits_bundle, sockets, **said) as process:
        try:
            assert Served(process).port != sockets[0].getsockname()[1]
        finally:
            process.kill()


def datagrams() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    return made


@pytest.mark.parametrize(
    ("make", "number", "found"),
    [
        (lambda place: [listening(), listening()], "", "2 of them"),
        (lambda place: [listening()], "-1", "-1 of them"),
        (lambda place: [socket.socket(socket.AF_INET, socket.SOCK_STREAM)], "", "not listening"),
        (lambda place: [datagrams()], "", "SOCK_DGRAM"),
        (lambda place: [listening(socket.AF_UNIX, str(place / "socket"))], "", "AF_UNIX"),
    ],
    ids=["several", "no number", "not listening", "datagrams", "in the file system"],
)
def test_other_sockets_are_refused(
    make: Callable[[Path], list[socket.socket]],
    number: str,
    found: str,
    digits_bundle: Bundle,
    sockets: list[socket.socket],
    tmp_path: Path,
) -> None:
    sockets += make(tmp_path)
    assert found in refused(passing(digits_bundle, sockets, number))["found"]


def test_what_is_no_socket_is_refused(digits_bundle: Bundle) -> None:
    with passing(digits_bundle, [], "1") as process:
        refused(process)


def test_children_lack_the_socket(digits_bundle: Bundle, sockets: list[socket.socket]) -> None:
    sockets.append(listening())
    with passing(digits_bundle, sockets) as process:
        try:
            Served(process).wait_for("ready")
            flags = until(
                lambda: [
                    line.split()[1]
                    for line in Path(f"/proc/{process.pid}/fdinfo/3")
                    .read_text(encoding="utf-8")
                    .splitlines()
                    if line.startswith("flags:")
                ],
                "its descriptors can be read",
            )
            assert int(flags[0], 8) & os.O_CLOEXEC
        finally:
            process.kill()
