"""Cancelled requests, joined with others, while the bundle is replaced by forged and genuine ones:
every other client gets its own answers.
"""

import contextlib
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from random import Random

import numpy as np
import pytest
from served import Served, binary_request, serving
from waiting import until

from tests.conftest import Bundle
from tests.unit.runtime.serve.conftest import joins

from .tampering import flipped

__all__ = ["joins"]


STORMS, CLIENTS, REQUESTS, SWAPS = 4, 4, 60, 2

PAUSE = 0.02
"""Between two of a client's connections: a storm that takes all of the processor is another test,
`benchmarks.serve_attacks`.
"""


def request_of(number: float, rows: int) -> tuple[bytes, bytes]:
    """A whole request, and the data of its answer: no two numbers have the same."""
    x = np.full((rows, 4), number, np.float32)
    header, data = binary_request({"x": ("FP32", x), "y": ("FP32", x)})
    head = "POST /v2/models/joins.rows/infer HTTP/1.1\r\nHost: x\r\n"
    head += f"Inference-Header-Content-Length: {len(header)}\r\n"
    head += f"Content-Length: {len(header) + len(data)}\r\n\r\n"
    return head.encode() + header + data, (x * 3).tobytes() + (x * 2).T.tobytes()


def storm(served: Served, seed: int, is_over: threading.Event) -> None:
    """Send all of some requests or a part, and close by a reset or an end."""
    random = Random(seed)
    resets = cycle((True, True, False))
    while not is_over.wait(PAUSE):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", served.port)) as c,
        ):
            sent = b"".join(
                request_of(-1 - random.random(), random.randint(1, 4))[0]
                for _ in range(random.choice((1, 1, 3)))
            )
            c.sendall(sent[: random.choice((len(sent), len(sent), len(sent) - 1, 300))])
            is_over.wait(random.choice((0.0, 0.0005, 0.002, 0.01)))
            if next(resets):
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def answers(served: Served, number: int, wrong: list[object]) -> None:
    """Ask on one connection, a few requests behind each other."""
    random = Random(number)
    try:
        with contextlib.closing(served.connect()) as connection:
            for each in range(REQUESTS):
                rows = random.randint(1, 4)
                value = number * REQUESTS + each
                x = np.full((rows, 4), value, np.float32)
                status, document, outputs = served.infer(
                    "joins.rows", {"x": ("FP32", x), "y": ("FP32", x)}, connection
                )
                across = np.ascontiguousarray((x * 2).T)
                expected = {"sum": (x * 3).tobytes(), "across": across.tobytes()}
                if status != 200 or outputs != expected:
                    wrong.append((status, document))
    except Exception as error:  # noqa: BLE001 - told by the test
        wrong.append(error)


@contextmanager
def running(works: list[Callable[[], None]]) -> Iterator[list[threading.Thread]]:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        for thread in threads:
            thread.join()


FORGED: tuple[Callable[[bytes], bytes], ...] = (
    flipped,
    lambda data: data[: len(data) // 2],
    lambda data: data + bytes(2**15),
    lambda data: b"",
)


def swap(served: Served, data: bytes, place: Path) -> None:
    """Put another file in the place of the bundle, and have it loaded."""
    (place.parent / "next").write_bytes(data)
    (place.parent / "next").replace(place)
    served.process.send_signal(signal.SIGHUP)


@pytest.mark.parametrize("options", [(), ("--max-delay", "5")], ids=["alone", "joined"])
def test_cancellation_is_isolated(options: tuple[str, ...], joins: Bundle, tmp_path: Path) -> None:
    place, is_over, wrong = tmp_path / "joins.aotb", threading.Event(), list[object]()
    shutil.copyfile(joins[0], place)
    with serving([place], [joins[1]], *options) as served:
        storms = [lambda n=n: storm(served, n, is_over) for n in range(STORMS)]
        clients = [lambda n=n: answers(served, n, wrong) for n in range(CLIENTS)]
        with running(storms):
            try:
                with running(clients):
                    for number in range(SWAPS):
                        for forged in FORGED:
                            count = len(served.said("refused")) + 1
                            swap(served, forged(joins[0].read_bytes()), place)
                            assert "AOTC-E" in served.wait_for("refused", count)["reason"]
                        swap(served, joins[0].read_bytes(), place)
                        served.wait_for("serving", number + 2)
            finally:
                is_over.set()
        assert wrong == []
        until(lambda: served.held() == {0.0}, "it holds no request")
        served.process.terminate()
        assert served.process.wait(30) == 0
        assert served.process.stderr is not None
        assert "Traceback" not in served.process.stderr.read()
