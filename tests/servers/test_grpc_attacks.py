"""Clients of gRPC that announce, are silent, or encode little as much: `make test-serve`.

Beside each, other clients are answered over both protocols, and the process takes no more memory
than it was told.
"""

import contextlib
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from served import Served, serving
from waiting import until

from tests.servers.http2 import RESET, Http2, infer_request
from tests.servers.test_tritonclient import SERVER, pytestmark

__all__ = ["pytestmark"]

MIB = 2**20
MEMORY = 64 * MIB
STREAMS_MAX = 32
"""Calls at a time on a connection, as the guide has it."""

ENHANCE_YOUR_CALM = 11
"""The error of HTTP/2 for calls beyond those allowed."""

OK, INVALID, DEADLINE, EXHAUSTED, UNIMPLEMENTED, UNAVAILABLE = 0, 3, 4, 8, 12, 14
X = np.zeros((1, 64), np.float32)
GOOD = infer_request(X.tobytes())


@pytest.fixture(scope="module")
def served(digits_bundle: tuple[Path, Path]) -> Iterator[Served]:
    limits = ["--max-memory", "64M", "--max-body", "16M", "--workers", "16"]
    limits += ["--header-seconds", "3", "--write-seconds", "3", "--max-requests", "200"]
    # What is silent has to be noticed before.
    limits += ["--body-seconds", "9999"]
    options = ["--grpc-port", "0", *limits]
    with serving(digits_bundle[:1], digits_bundle[1:], *options, python=SERVER) as server:
        # What a large request keeps of the C library's heaps is no part of an attack.
        for _ in range(3):
            asked(server, b"\x0a\x06digits\x2a" + bytes(4) + bytes(8 * MIB))
            answered(server)
        yield server


@pytest.fixture(autouse=True)
def holds_nothing_afterwards(served: Served) -> Iterator[None]:
    before = resident(served)
    yield
    answered(served)
    until(lambda: served.gauge("in_flight_bytes") == 0, "it holds no request")
    assert resident(served, "VmHWM") - before < 1.5 * MEMORY


def resident(served: Served, what: str = "VmRSS") -> int:
    text = Path(f"/proc/{served.process.pid}/status").read_text("utf-8")
    return int(re.search(rf"{what}:\s+(\d+)", text)[1]) * 1024  # type: ignore[index]


def asked(served: Served, message: bytes, method: str = "ModelInfer") -> tuple[int, str, bytes]:
    with Http2(served.grpc) as connection:
        connection.begin(1, method)
        connection.send(1, message)
        return connection.answer()


def answered(served: Served) -> None:
    """Small requests are, over both protocols, and the server is ready."""
    status, _, answer = asked(served, GOOD)
    assert status == OK and b"digits" in answer
    assert served.infer("digits", {"image": ("FP32", X)})[0] == 200
    assert asked(served, b"", "ServerReady")[::2] == (OK, b"\x08\x01")
    assert served.ask("GET", "/v2/health/ready")[0] == 200


def test_calls_without_a_message_keep_no_others_out(served: Served) -> None:
    """More of them than requests may be under way."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(Http2(served.grpc)) for _ in range(8)]
        for connection in connections:
            for number in range(STREAMS_MAX):
                connection.begin(2 * number + 1, "ModelInfer")
        answered(served)
        codes = {connection.answer()[1] for connection in connections}
    assert codes <= {"AOTC-E764", "AOTC-E766"}


@pytest.mark.parametrize("size", [1, 3 * MIB])
def test_half_sent_messages_keep_no_others_out(size: int, served: Served) -> None:
    """Each announces 16 MiB; together they send 1 byte each, or 120 MiB."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(Http2(served.grpc)) for _ in range(40)]
        for connection in connections:
            connection.begin(1, "ModelInfer")
            # The server may have refused it by now.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                connection.send(1, bytes(size), 16 * MIB)
            answered(served)
        found = [connection.answer()[:2] for connection in connections]
    late, full = (DEADLINE, "AOTC-E764"), (UNAVAILABLE, "AOTC-E766")
    assert set(found) <= {late, full}
    assert (full in found) == (size > 1)


BOMBS = {
    "inputs": b"\x2a\x00",
    "outputs": b"\x32\x00",
    "raw contents": b"\x3a\x00",
    "unknown fields": b"\xfa\x01\x00",
    "parameters": b"\x22\x03\x0a\x01x",
}


@pytest.mark.parametrize("part", BOMBS.values(), ids=BOMBS)
def test_small_fields_are_not_made_into_large_objects(part: bytes, served: Served) -> None:
    message = b"\x0a\x06digits" + part * (12 * MIB // len(part))
    for _ in range(3):
        assert asked(served, message)[:2] == (INVALID, "AOTC-E761")
        answered(served)


@pytest.mark.parametrize("field", [1, 3, 6])
def test_typed_contents_are_compared_before_reading(field: int, served: Served) -> None:
    def wrapped(number: int, data: bytes) -> bytes:
        size, left = b"", len(data)
        while left > 0x7F:
            size, left = size + bytes([left & 0x7F | 0x80]), left >> 7
        return bytes([number << 3 | 2]) + size + bytes([left]) + data

    tensor = wrapped(1, b"image") + wrapped(2, b"FP32") + wrapped(3, b"\x01\x40")
    tensor += wrapped(5, wrapped(field, bytes(12 * MIB)))
    message = b"\x0a\x06digits" + wrapped(5, tensor)
    assert asked(served, message)[:2] == (INVALID, "AOTC-E761")


def test_compressed_messages_are_refused(served: Served) -> None:
    """62 kB become 63 MiB, and those 2.8 GB."""
    data = zlib.compress(b"\x0a\x06digits" + b"\x2a\x00" * (8 * MIB), wbits=31)
    for more in ([("grpc-encoding", "gzip")], []):
        with Http2(served.grpc) as connection:
            connection.begin(1, "ModelInfer", *more)
            connection.send(1, data, flags=1)
            status = connection.answer()[0]
        assert status == UNIMPLEMENTED if more else status not in (OK, INVALID)
        answered(served)


@pytest.mark.parametrize("method", ["ServerReady", "ModelMetadata", "RepositoryModelLoad"])
def test_messages_without_tensors_are_small(method: str, served: Served) -> None:
    assert asked(served, b"\x0a\x00" * 2**13, method)[1] == "AOTC-E763"
    assert asked(served, b"\x0a\xff", method)[1] == "AOTC-E761"


def test_headers_larger_than_allowed_are_refused(served: Served) -> None:
    more = [(f"x-{number}", "y" * 100) for number in range(200)]
    with Http2(served.grpc) as connection:
        connection.begin(1, "ModelInfer", *more[:100])
        connection.send(1, GOOD)
        assert connection.answer()[0] == OK
    with Http2(served.grpc) as connection, contextlib.suppress(ConnectionError):
        connection.begin(1, "ModelInfer", *more)
        connection.send(1, GOOD)
        assert connection.answer()[0] != OK


def test_connections_that_take_no_answer_are_cut(served: Served) -> None:
    with Http2(served.grpc, window=0) as connection:
        for number in range(STREAMS_MAX):
            connection.begin(2 * number + 1, "ModelInfer")
            connection.send(2 * number + 1, GOOD)
        answered(served)
        assert served.gauge("in_flight_bytes") > 0
        while connection.frame() is not None:
            pass
    until(lambda: served.gauge("in_flight_bytes") == 0, "their answers are given up")


def test_more_calls_on_a_connection_than_allowed_are_refused(served: Served) -> None:
    with Http2(served.grpc) as connection:
        for number in range(200):
            connection.begin(2 * number + 1, "ModelInfer")
        refused = 0
        while refused < 200 - STREAMS_MAX:
            found = connection.frame()
            assert found is not None
            refused += found[0] == RESET and int.from_bytes(found[3]) == ENHANCE_YOUR_CALM
    answered(served)


@pytest.mark.parametrize("option", ["--age-seconds", "--idle-seconds"])
def test_idle_or_old_connections_end(option: str, digits_bundle: tuple[Path, Path]) -> None:
    options = ["--grpc-port", "0", "--idle-seconds", "9999", option, "1"]
    with serving(digits_bundle[:1], digits_bundle[1:], *options, python=SERVER) as server:
        with Http2(server.grpc) as connection:
            connection.begin(1, "ModelInfer")
            connection.send(1, GOOD)
            assert connection.answer()[0] == OK
            while connection.frame() is not None:
                pass
        answered(server)


def test_health_is_answered_while_no_request_is_taken(digits_bundle: tuple[Path, Path]) -> None:
    options = ["--grpc-port", "0", "--max-requests", "0"]
    with serving(digits_bundle[:1], digits_bundle[1:], *options, python=SERVER) as server:
        assert asked(server, GOOD)[:2] == (UNAVAILABLE, "AOTC-E766")
        assert asked(server, b"", "ServerReady")[::2] == (OK, b"\x08\x01")
        assert asked(server, b"\x0a\x06digits", "ModelMetadata")[0] == OK
