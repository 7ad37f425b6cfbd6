"""Small requests that are known to be quick are answered where they are read, by the same rules;
and which requests those are.
"""

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import Served, binary_request, serving
from waiting import SECONDS

from aotc_runtime.base.errors import AotcError
from aotc_serve.http.http_app import Rest
from aotc_serve.http.json_inference import FORMS_MOST, prepare_call
from aotc_serve.inference.protocol_tensors import BYTES_WITHIN, Port, from_bytes
from aotc_serve.inference.request_memory import Claim
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.inference.server_options import Limits
from aotc_serve.service import request_service as module
from aotc_serve.service.bundle_repository import Repository
from aotc_serve.service.request_service import (
    BARRED_TIMES,
    HELD_SECONDS,
    QUICK_BYTES,
    QUICK_MOST,
    QUICK_SECONDS,
    Asked,
    Quick,
    Service,
)

from ..samples import refused

X = np.arange(8, dtype=np.float32).reshape(2, 4)
URL = b"/v2/models/joins.scaled/infer"
PLACE = "/v2/models/joins.scaled/infer"
Headers = list[tuple[bytes, bytes]]


@pytest.fixture
def service(repository: Repository) -> Iterator[Service]:
    service = Service(repository, Limits(body=4096, memory=4096, requests=1), Metrics(), 1)
    yield service
    assert (service.requests, service.memory.used) == (0, 0)
    service.close()


def asked(x: Any = X, factor: float = 3.0) -> tuple[Headers, bytes]:
    inputs = {"x": ("FP32", x), "factor": ("FP32", np.float32(factor).reshape(()))}
    header, data = binary_request(inputs)
    return [(b"inference-header-content-length", str(len(header)).encode())], header + data


def known(service: Service, body: bytes, x: Any = X) -> None:
    """Make it known that such requests are quick."""
    model = service.repository.find("joins.scaled")
    shapes = {"x": x.shape, "factor": ()}
    for kind in (len(body), tuple(shapes[port.name] for port in model.inputs)):
        service._quick.took(("joins.scaled", "", kind), 0.0)


def test_only_what_is_known_to_be_quick_is_answered_at_once(service: Service) -> None:
    rest, (headers, body) = Rest(service, False), asked()
    assert rest.at_once(URL, headers, body) is None
    known(service, body)
    response = rest.at_once(URL, headers, body)
    assert response.status_code == 200 and response.body.endswith((X * 3).tobytes())
    assert rest.at_once(URL.replace(b"scaled", b"rows"), headers, body) is None
    assert rest.at_once(URL + b"?x", headers, body) is None
    assert rest.at_once(b"/v2/models/joins%2Escaled/infer", headers, body) is None
    assert rest.at_once(b"/v2/models/joins.scaled", headers, body) is None


def test_request_of_other_shapes_and_same_bytes_is_not_quick(service: Service) -> None:
    rest, (headers, body) = Rest(service, False), asked()
    larger, other = asked(np.concatenate([X, X]))
    longer = headers[0][1], b"%d" % (int(headers[0][1]) + len(other) - len(body))
    padded = body[: int(longer[0])] + b" " * (int(longer[1]) - int(longer[0]))
    padded += body[int(longer[0]) :]
    known(service, padded)
    assert len(padded) == len(other)
    assert rest.at_once(URL, larger, other) is None
    assert (service.requests, service.memory.used) == (0, 0)
    assert rest.at_once(URL, [(headers[0][0], longer[1])], padded).status_code == 200
    service._quick._barred.clear()  # a busy machine may have held the loop
    known(service, other, np.concatenate([X, X]))
    assert rest.at_once(URL, larger, other).status_code == 200


def test_blocking_model_leaves_the_loop(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    rest, (headers, body) = Rest(service, False), asked()
    answered, call = [], service._call

    def slow(*given: Any) -> Any:
        answered.append(time.sleep(2 * HELD_SECONDS))
        return call(*given)

    known(service, body)
    monkeypatch.setattr(service, "_call", slow)
    assert rest.at_once(URL, headers, body).status_code == 200
    known(service, body)
    for _ in range(50):
        service._quick.took(("joins.scaled", "", len(body)), 0.0)
    assert rest.at_once(URL, headers, body) is None
    assert len(answered) == 1


def test_a_server_that_ends_or_is_full_answers_nothing_at_once(service: Service) -> None:
    rest, (headers, body) = Rest(service, False), asked()
    known(service, body)
    service.is_draining = True
    assert rest.at_once(URL, headers, body) is None
    service.is_draining = False
    # Seven eighths are for requests that are not small.
    others = Claim(service.memory, 3584 - len(body) + 1)
    assert rest.at_once(URL, headers, body) is None
    others.close()
    held = Asked("rest", "joins.scaled", "", 0, Claim(service.memory))
    service._enter(held)
    refused = rest.at_once(URL, headers, body)
    assert refused.status_code == 503 and json.loads(refused.body)["code"] == "AOTC-E766"
    service._on_ended(held)
    long = body + bytes(4096)
    known(service, long)
    assert rest.at_once(URL, headers, long) is None
    assert rest.at_once(URL, headers, body).status_code == 200


def test_what_does_not_fit_is_refused_with_its_code_and_without_its_text(service: Service) -> None:
    rest, (headers, body) = Rest(service, False), asked()
    known(service, body)
    refused = rest.at_once(URL, headers, body.replace(b"FP32", b"FP64"))
    assert refused.status_code == 400 and json.loads(refused.body)["code"] == "AOTC-E606"
    lying = [(name, b"99999" if b"length" in name else value) for name, value in headers]
    refused = rest.at_once(URL, lying, body)
    assert refused.status_code == 400 and json.loads(refused.body)["code"] == "AOTC-E761"
    assert b"Traceback" not in refused.body
    # Named by the application, which says what is not offered.
    assert rest.at_once(URL, [*headers, (b"content-encoding", b"gzip")], body) is None


def test_same_header_is_checked_once_and_tensors_each_time(repository: Repository) -> None:
    model = repository.find("joins.scaled")
    model.forms.clear()
    headers, body = asked()
    length = int(dict(headers)[b"inference-header-content-length"])
    header, data = memoryview(body)[:length], memoryview(body)[length:]
    first = prepare_call(model, header, data, 10_000)
    assert len(model.forms) == 1
    other = memoryview((X + 1).tobytes() + np.float32(2).tobytes())
    second = prepare_call(model, header, other, 10_000)
    assert [a.tobytes() for a in second.arrays] == [(X + 1).tobytes(), np.float32(2).tobytes()]
    assert (first.outputs, first.id) == (second.outputs, second.id)
    for short, limit, code in ((data[:-1], 10_000, "AOTC-E761"), (data, 8, "AOTC-E763")):
        with refused(code):
            prepare_call(model, header, short, limit)
    for number in range(3 * FORMS_MOST):
        prepare_call(model, memoryview(bytes(header) + b" " * number), data, 10_000)
    assert len(model.forms) <= FORMS_MOST


def test_impossible_values_are_found_behind_known_headers(repository: Repository) -> None:
    """Check that `prepared` looks at the bytes again of a form that it knows."""
    within = BYTES_WITHIN[next(iter(BYTES_WITHIN))]
    port = Port("flag", "BOOL", np.dtype(np.bool_), (2,), within)
    assert from_bytes(port, [2], b"\x00\x01").tolist() == [False, True]
    with pytest.raises(AotcError):
        from_bytes(port, [2], b"\x00\x02")


@pytest.fixture(scope="module")
def served(joins: tuple[Path, Path]) -> Iterator[Served]:
    with serving(joins[:1], joins[1:]) as server:
        connection = server.connect()
        for _ in range(50):
            headers, body = asked()
            text = {n.decode(): v.decode() for n, v in headers}
            assert server.ask("POST", PLACE, body, text, connection)[0] == 200
        yield server


def raw(factor: float, *more: str, version: str = "1.1") -> bytes:
    headers, body = asked(factor=factor)
    lines = [f"POST {PLACE} HTTP/{version}", "host: x", f"content-length: {len(body)}", *more]
    lines += [f"{name.decode()}: {value.decode()}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Wire:
    """A connection, byte by byte."""

    def __init__(self, served: Served) -> None:
        self.socket = socket.create_connection(("127.0.0.1", served.port), SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def answer(self) -> tuple[bytes, bytes]:
        """Head and body of the next one."""
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head)
        length = int(found[1]) if found else 0
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return head, body

    def is_closed(self) -> bool:
        return not self._rest and self.socket.recv(1) == b""

    def _more(self) -> None:
        part = self.socket.recv(65536)
        assert part, f"closed after {self._rest!r}"
        self._rest += part


def test_requests_behind_each_other_are_answered_in_their_order(served: Served) -> None:
    wire = Wire(served)
    wire.socket.sendall(b"".join(raw(factor) for factor in range(1, 8)))
    for factor in range(1, 8):
        head, body = wire.answer()
        assert head.startswith(b"HTTP/1.1 200") and b"\r\ndate: " in head
        assert body.endswith((X * factor).tobytes())
    wire.socket.sendall(raw(1)[:-5].replace(b"/infer", b"/nowhere") + b"12345" + raw(2))
    assert wire.answer()[0].startswith(b"HTTP/1.1 404")
    assert wire.answer()[1].endswith((X * 2).tobytes())


def test_requests_in_pieces_are_answered_as_whole_ones_are(served: Served) -> None:
    wire, sent = Wire(served), raw(5)
    head = sent.index(b"\r\n\r\n") + 4
    for cut in (1, head - 1, head, head + 1, len(sent) - 1):
        # The first piece has an answer of its own in front, so that it is read on its own.
        wire.socket.sendall(raw(4) + sent[:cut])
        assert wire.answer()[1].endswith((X * 4).tobytes())
        wire.socket.sendall(sent[cut:])
        assert wire.answer()[1].endswith((X * 5).tobytes())


def test_what_a_client_says_of_its_connection_holds(served: Served) -> None:
    wire = Wire(served)
    wire.socket.sendall(raw(2, "connection: close"))
    head, body = wire.answer()
    assert b"connection: close" in head and body.endswith((X * 2).tobytes())
    assert wire.is_closed()
    wire = Wire(served)
    wire.socket.sendall(raw(2, version="1.0"))
    assert wire.answer()[1].endswith((X * 2).tobytes())
    assert wire.is_closed()
    wire = Wire(served)
    wire.socket.sendall(raw(2, "expect: 100-continue"))
    assert wire.answer()[0] == b"HTTP/1.1 100 Continue"
    assert wire.answer()[1].endswith((X * 2).tobytes())


def test_a_refusal_keeps_the_connection_and_what_it_held(served: Served) -> None:
    wire = Wire(served)
    wire.socket.sendall(raw(2).replace(b"FP32", b"FP64") + raw(3))
    head, body = wire.answer()
    assert head.startswith(b"HTTP/1.1 400") and json.loads(body)["code"] == "AOTC-E606"
    assert wire.answer()[1].endswith((X * 3).tobytes())
    wire.socket.sendall(b"nonsense\r\n\r\n")
    assert wire.answer()[0].startswith(b"HTTP/1.1 400")
    text = served.ask("GET", "/metrics")[2].decode()
    assert "aotc_server_in_flight_bytes 0.0" in text
    assert 'aotc_server_in_flight_requests{model="joins.scaled"} 0.0' in text


KIND = ("m", "", 100)


def test_what_was_quick_is_until_it_takes_long() -> None:
    quick = Quick()
    quick.took(KIND, QUICK_SECONDS / 10)
    assert quick.holds(KIND) and not quick.holds(("m", "", 101))
    quick.took(KIND, QUICK_SECONDS * 10)
    assert not quick.holds(KIND)
    for _ in range(20):
        quick.took(KIND, QUICK_SECONDS / 10)
    assert quick.holds(KIND)


def test_large_requests_never_are() -> None:
    quick = Quick()
    quick.took(("m", "", QUICK_BYTES + 1), 0.0)
    assert not quick.holds(("m", "", QUICK_BYTES + 1))


def test_names_that_clients_make_up_do_not_fill_the_memory() -> None:
    quick = Quick()
    for size in range(3 * QUICK_MOST):
        quick.took(("m", "", size), 0.0)
    assert len(quick._seconds) <= QUICK_MOST


def test_model_is_barred_for_multiples_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    quick = Quick()
    for kind in (KIND, ("other", "", 100)):
        quick.took(kind, 0.0)
    quick.note_held("m", HELD_SECONDS)
    assert quick.holds(KIND)
    quick.note_held("m", 1.0)
    assert not quick.holds(KIND) and quick.holds(("other", "", 100))
    now += BARRED_TIMES - 1
    assert not quick.holds(KIND)
    now += 1
    assert quick.holds(KIND)
