"""Blobs reach a registry and come back whole, or not at all, whatever the registry does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from aotc_runtime.base.errors import IntegrityError, RegistryError
from aotc_serve.oci.registry_blobs import fetch_blob, push_blob
from aotc_serve.oci.registry_client import PATIENCE_SECONDS, Repository
from aotc_serve.oci.registry_listing import Memory
from tests.registries.conftest import Connect
from tests.registries.oci_server import Handler, OciServer, sha256

DATA = bytes(range(256)) * 40
DIGEST = sha256(DATA)
REPO = "models/digits"


def fetched(repository: Repository) -> bytes:
    sink = Memory()
    fetch_blob(repository, DIGEST, len(DATA), sink)
    return bytes(sink.data)


def once(fault: Callable[[Handler], object], method: str = "GET", text: str = "/blobs/sha256"):
    """A fault of the first request of this method whose path has the text."""
    left = [1]

    def served(handler: Handler) -> bool:
        if handler.command != method or text not in handler.path or not left[0]:
            return False
        left[0] -= 1
        fault(handler)
        return True

    return served


def always(fault: Callable[[Handler], object], method: str = "GET", text: str = "/blobs/sha256"):
    def served(handler: Handler) -> bool:
        if handler.command != method or text not in handler.path:
            return False
        fault(handler)
        return True

    return served


def status(code: int, **headers: str) -> Callable[[Handler], object]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.answer(code, b"", named)


def cut(number: int) -> Callable[[Handler], bool]:
    """Break off each answer with a blob after so many bytes of it."""

    def served(handler: Handler) -> bool:
        if handler.command != "GET" or "/blobs/sha256" not in handler.path:
            return False
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        if len(DATA) - start <= number:
            return False
        handler.send_response(206 if asked else 200)
        handler.send_header("Content-Length", str(len(DATA) - start))
        if asked:
            span = f"bytes {start}-{len(DATA) - 1}/{len(DATA)}"
            handler.send_header("Content-Range", span)
        handler.end_headers()
        handler.wfile.write(DATA[start : start + number])
        handler.hang_up()
        return True

    return served


@pytest.mark.parametrize("number", [1, 700, 5000, len(DATA) - 1])
def test_a_fetch_goes_on_where_the_connection_broke_at_any_byte(
    number: int, server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults.append(cut(number) if number > 1 else once_cut(1))
    assert fetched(connect()) == DATA
    ranges = [a.headers.get("range") for a in server.asked if a.method == "GET"]
    assert ranges[0] is None and ranges[1] == f"bytes={number}-"


def once_cut(number: int) -> Callable[[Handler], bool]:
    left, fault = [1], cut(number)

    def served(handler: Handler) -> bool:
        if left[0] and fault(handler):
            left[0] -= 1
            return True
        return False

    return served


def test_a_registry_that_breaks_off_without_a_byte_is_given_up(
    server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults.append(cut(0))
    with pytest.raises(RegistryError) as caught:
        fetched(connect(tries=3))
    assert caught.value.code == "AOTC-E772"
    assert server.count("GET", "/blobs/") == 3


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_what_may_do_better_later_is_tried_again(
    code: int, server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults += [once(status(code)), once(status(code))]
    assert fetched(connect()) == DATA
    assert server.count("GET", "/blobs/") == 3


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (400, "AOTC-E775"),
        (403, "AOTC-E773"),
        (404, "AOTC-E774"),
        (416, "AOTC-E775"),
        (501, "AOTC-E775"),
    ],
)
def test_what_is_refused_is_not_tried_again(
    code: int, expected: str, server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults.append(always(status(code)))
    with pytest.raises(RegistryError) as caught:
        fetched(connect())
    assert caught.value.code == expected
    assert server.count("GET", "/blobs/") == 1


def test_who_is_asked_to_wait_waits_as_long(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults.append(once(status(429, Retry_After="1")))
    began = time.monotonic()
    assert fetched(connect()) == DATA
    assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize("kind", ["seconds", "date"])
def test_who_is_asked_to_wait_for_ever_does_not(
    kind: str, server: OciServer, connect: Connect
) -> None:
    later = datetime.now(UTC) + timedelta(seconds=PATIENCE_SECONDS * 2)
    says = str(int(PATIENCE_SECONDS) + 1) if kind == "seconds" else format_datetime(later)
    server.faults.append(always(status(429, Retry_After=says)))
    with pytest.raises(RegistryError) as caught:
        fetched(connect())
    assert caught.value.code == "AOTC-E772"
    assert server.count("GET", "/blobs/") == 1


def test_bytes_that_are_others_than_asked_for_are_refused(
    server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA[:-1] + b"x"
    with pytest.raises(IntegrityError) as caught:
        fetched(connect())
    assert caught.value.code == "AOTC-E201"


@pytest.mark.parametrize("more", [-1, 1, 10**15])
def test_a_size_that_is_another_than_asked_for_is_refused_before_a_byte_is_read(
    more: int, server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults.append(always(status(200, Content_Length=str(len(DATA) + more))))
    with pytest.raises(IntegrityError) as caught:
        fetched(connect())
    assert caught.value.code == "AOTC-E203"


def test_a_body_that_never_ends_is_read_no_further_than_asked_for(
    server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    sent = []

    def endless(handler: Handler) -> None:
        handler.close_connection = True
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(4096):
                handler.wfile.write(bytes(2**16))
                sent.append(2**16)
        except OSError:
            pass

    server.faults.append(always(endless))
    with pytest.raises(IntegrityError) as caught:
        fetched(connect())
    assert caught.value.code == "AOTC-E203"
    assert sum(sent) < 2**28, "most of it was never taken"


@pytest.mark.parametrize(
    "span", ["", "bytes 0-9/10", f"bytes 101-{len(DATA) - 1}/{len(DATA)}", "bytes 100-9/7"]
)
def test_other_bytes_than_the_rest_are_refused(
    span: str, server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults += [once_cut(100), always(status(206, Content_Range=span))]
    with pytest.raises(RegistryError) as caught:
        fetched(connect())
    assert caught.value.code == "AOTC-E775"


def test_a_registry_without_ranges_begins_anew(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults += [once_cut(100), once(lambda handler: handler.answer(200, DATA))]
    assert fetched(connect()) == DATA


def test_an_answer_without_a_length_that_ends_early_has_broken_off(
    server: OciServer, connect: Connect
) -> None:
    def half(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(DATA[:100])

    server.blobs[REPO, DIGEST] = DATA
    server.faults.append(once(half))
    assert fetched(connect()) == DATA


def test_a_registry_that_has_no_rest_begins_anew(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults += [once_cut(100), once(status(416))]
    assert fetched(connect()) == DATA
    ranges = [a.headers.get("range") for a in server.asked if a.method == "GET"]
    assert ranges == [None, "bytes=100-", None]


def test_what_an_earlier_process_left_is_dropped_if_it_is_wrong(
    server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    sink = Memory()
    sink.write(b"other bytes")
    fetch_blob(connect(), DIGEST, len(DATA), sink)
    assert bytes(sink.data) == DATA


def test_a_trickle_is_ended(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, DIGEST] = DATA

    def trickle(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(DATA)))
        handler.end_headers()
        try:
            for byte in DATA:
                handler.wfile.write(bytes([byte]))
                time.sleep(0.05)
        except OSError:
            pass

    server.faults.append(always(trickle))
    began = time.monotonic()
    with pytest.raises(RegistryError) as caught:
        fetched(connect(tries=1, seconds=0.5))
    assert caught.value.code == "AOTC-E772"
    assert time.monotonic() - began < len(DATA) * 0.05


BIG = bytes(range(256)) * 4096
CHUNK = 100_000


def pushed(repository: Repository, data: bytes = BIG, chunk: int = CHUNK) -> bool:
    return push_blob(repository, sha256(data), memoryview(data), chunk_bytes=chunk)


@pytest.mark.parametrize("chunk", [CHUNK, len(BIG)])
def test_a_blob_is_sent_once(chunk: int, server: OciServer, connect: Connect) -> None:
    assert pushed(connect(), chunk=chunk)
    assert server.blobs[REPO, sha256(BIG)] == BIG
    assert not pushed(connect())
    assert server.count("POST", "uploads") == 1


@pytest.mark.parametrize("number", [0, 1, 50_000, CHUNK - 1])
def test_an_upload_goes_on_from_what_the_registry_has(
    number: int, server: OciServer, connect: Connect
) -> None:
    repository = connect()
    left = [3]

    def later(handler: Handler) -> bool:
        if handler.command == "PATCH" and left[0]:
            left[0] -= 1
            if not left[0]:
                server.cut_body_at = number
        return False

    server.faults.append(later)
    assert pushed(repository)
    assert server.blobs[REPO, sha256(BIG)] == BIG
    assert server.count("POST", "uploads") == 1, "no upload was begun anew"
    sent = [int(a.headers["content-length"]) for a in server.asked if a.method == "PATCH"]
    assert sum(sent) <= len(BIG) + CHUNK


def test_an_upload_that_gets_on_may_break_more_often(server: OciServer, connect: Connect) -> None:
    tried = []

    def every_second(handler: Handler) -> bool:
        tried.append(handler.command == "PATCH")
        if handler.command != "PATCH" or sum(tried) % 2:
            return False
        handler.answer(503, b"", {})
        return True

    server.faults.append(every_second)
    assert pushed(connect(tries=2))
    assert server.blobs[REPO, sha256(BIG)] == BIG


def test_no_chunk_is_sent_before_the_registry_has_said_how_far_it_is(
    server: OciServer, connect: Connect
) -> None:
    server.faults += [
        once(lambda handler: handler.hang_up(), "PATCH", "uploads"),
        once(status(503), "GET", "uploads"),
    ]
    assert pushed(connect())
    assert server.blobs[REPO, sha256(BIG)] == BIG
    methods = [each.method for each in server.asked]
    broken = methods.index("PATCH")
    assert methods[broken : broken + 4] == ["PATCH", "GET", "GET", "PATCH"]


def test_an_upload_that_the_registry_has_forgotten_begins_anew(
    server: OciServer, connect: Connect
) -> None:
    def forget(handler: Handler) -> None:
        server.uploads.clear()
        handler.hang_up()

    repository = connect()
    server.faults.append(once(forget, "PATCH", "uploads"))
    assert pushed(repository)
    assert server.blobs[REPO, sha256(BIG)] == BIG
    assert server.count("POST", "uploads") == 2


@pytest.mark.parametrize(("method", "code"), [("PATCH", 404), ("PATCH", 416), ("PUT", 404)])
def test_an_upload_that_the_registry_says_it_does_not_have_begins_anew(
    method: str, code: int, server: OciServer, connect: Connect
) -> None:
    def forget(handler: Handler) -> None:
        server.uploads.clear()
        handler.answer(code, b"", {})

    server.faults.append(once(forget, method, "uploads"))
    assert pushed(connect())
    assert server.blobs[REPO, sha256(BIG)] == BIG
    assert server.count("POST", "uploads") == 2


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "HEAD"])
@pytest.mark.parametrize("code", [429, 500, 503])
def test_an_upload_survives_a_fault_at_each_step(
    method: str, code: int, server: OciServer, connect: Connect
) -> None:
    server.faults.append(once(status(code), method, "/blobs/"))
    assert pushed(connect())
    assert server.blobs[REPO, sha256(BIG)] == BIG


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT"])
def test_an_upload_that_is_refused_is_not_tried_again(
    method: str, server: OciServer, connect: Connect
) -> None:
    server.faults.append(always(status(507), method, "/blobs/"))
    with pytest.raises(RegistryError) as caught:
        pushed(connect())
    assert caught.value.code == "AOTC-E775"
    assert server.count(method, "/blobs/") == 1
    assert (REPO, sha256(BIG)) not in server.blobs


def test_an_upload_is_sent_nowhere_else(server: OciServer, connect: Connect) -> None:
    other = OciServer()
    try:
        there = f"http://{other.address}/v2/models/digits/blobs/uploads/1"
        server.faults.append(always(status(202, Location=there), "POST", "uploads"))
        with pytest.raises(RegistryError) as caught:
            pushed(connect())
        assert caught.value.code == "AOTC-E775"
        assert other.asked == []
    finally:
        other.close()


def test_more_than_was_sent_is_not_believed(server: OciServer, connect: Connect) -> None:
    there = {"Location": "/v2/models/digits/blobs/uploads/1", "Range": "0-99999999"}
    server.faults.append(always(lambda h: h.answer(202, b"", there), "PATCH", "uploads"))
    with pytest.raises(RegistryError) as caught:
        pushed(connect())
    assert caught.value.code == "AOTC-E775"


def test_a_chunk_that_is_never_there_is_given_up(server: OciServer, connect: Connect) -> None:
    there = {"Location": "/v2/models/digits/blobs/uploads/u0", "Range": "0-0"}
    server.faults.append(always(lambda h: h.answer(202, b"", there), "PATCH", "uploads"))
    with pytest.raises(RegistryError) as caught:
        pushed(connect())
    assert caught.value.code == "AOTC-E772"


def test_a_blob_of_another_repository_is_taken_over(server: OciServer, connect: Connect) -> None:
    server.blobs["models/base", DIGEST] = DATA
    there = connect()
    assert not push_blob(there, DIGEST, memoryview(DATA), ("models/none", "models/base"))
    assert server.blobs[REPO, DIGEST] == DATA
    assert server.count("PATCH", "") == server.count("PUT", "") == 0


def test_a_mount_that_may_do_better_later_is_tried_again(
    server: OciServer, connect: Connect
) -> None:
    server.blobs["models/base", DIGEST] = DATA
    server.faults.append(once(status(503), "POST", "mount="))
    assert not push_blob(connect(), DIGEST, memoryview(DATA), ("models/base",))
    assert server.blobs[REPO, DIGEST] == DATA


def test_an_upload_that_a_mount_has_begun_is_used(server: OciServer, connect: Connect) -> None:
    assert push_blob(connect(), DIGEST, memoryview(DATA), ("models/none",))
    assert server.blobs[REPO, DIGEST] == DATA
    assert server.count("POST", "uploads") == 1


def test_a_manifest_that_is_another_than_its_digest_is_refused(
    server: OciServer, connect: Connect
) -> None:
    server.manifests[REPO, DIGEST] = (b"{}", "x")
    with pytest.raises(IntegrityError) as caught:
        connect().manifest(DIGEST)
    assert caught.value.code == "AOTC-E201"


def test_a_manifest_is_read_up_to_its_limit(server: OciServer, connect: Connect) -> None:
    server.manifests[REPO, "1.0"] = (bytes(1001), "x")
    found = connect().manifest("1.0", 1001)
    assert found is not None and len(found.data) == 1001
    with pytest.raises(RegistryError) as caught:
        connect().manifest("1.0", 1000)
    assert caught.value.code == "AOTC-E775"
