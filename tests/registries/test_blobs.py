"""Blobs reach a registry and come back whole, or not at all, whatever the registry does."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from aotc_runtime.base.errors import IntegrityError, RegistryError
from aotc_serve.oci.registry_blobs import fetch_blob, push_blob
from aotc_serve.oci.registry_client import PATIENCE_SECONDS, Repository
from aotc_serve.oci.registry_listing import Memory
from tests.registries.conftest import Connect, refused
from tests.registries.faults import (
    DATA,
    DIGEST,
    REPO,
    Fault,
    always,
    cut,
    endless,
    fetched,
    first,
    once,
    status,
)
from tests.registries.oci_server import Handler, OciServer, sha256

REST = f"bytes 101-{len(DATA) - 1}/{len(DATA)}"


pytestmark = pytest.mark.usefixtures("stored")


def ranges(server: OciServer) -> list[str | None]:
    return [each.headers.get("range") for each in server.asked if each.method == "GET"]


@pytest.mark.parametrize("number", [1, 700, 5000, len(DATA) - 1])
def test_broken_fetch_goes_on(number: int, server: OciServer, connect: Connect) -> None:
    server.faults.append(cut(number) if number > 1 else first(cut(1)))
    assert fetched(connect()) == DATA
    assert ranges(server)[:2] == [None, f"bytes={number}-"]


def half(handler: Handler) -> None:
    """Without a length, so that its end is no error."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(DATA[:100])


@pytest.mark.parametrize(
    "faults",
    [
        [once(half)],
        [first(cut(100)), once(status(200, DATA))],
        [first(cut(100)), once(status(416))],
        *([once(status(code)), once(status(code))] for code in (408, 429, 500, 502, 503, 504)),
    ],
    ids=["no length", "no ranges", "no rest", "408", "429", "500", "502", "503", "504"],
)
def test_temporary_errors_retry(faults: list[Fault], server: OciServer, connect: Connect) -> None:
    server.faults += faults
    assert fetched(connect()) == DATA


@pytest.mark.parametrize(
    ("fault", "code", "count"),
    [
        (cut(0), "AOTC-E772", 3),
        (always(status(400)), "AOTC-E775", 1),
        (always(status(403)), "AOTC-E773", 1),
        (always(status(404)), "AOTC-E774", 1),
        (always(status(416)), "AOTC-E775", 1),
        (always(status(501)), "AOTC-E775", 1),
        (always(status(429, Retry_After=str(int(PATIENCE_SECONDS) + 1))), "AOTC-E772", 1),
    ],
    ids=["breaks off", "400", "403", "404", "416", "501", "429"],
)
def test_what_is_refused_is_not_tried_again_or_given_up_in_the_end(
    fault: Fault, code: str, count: int, server: OciServer, connect: Connect
) -> None:
    server.faults.append(fault)
    assert refused(fetched, connect(tries=3), kind=RegistryError).code == code
    assert server.count("GET", "/blobs/") == count


def test_retry_after_is_obeyed_within_bounds(server: OciServer, connect: Connect) -> None:
    server.faults.append(once(status(429, Retry_After="1")))
    began = time.monotonic()
    assert fetched(connect()) == DATA
    assert time.monotonic() - began >= 1.0
    later = datetime.now(UTC) + timedelta(seconds=PATIENCE_SECONDS * 2)
    server.faults.append(always(status(429, Retry_After=format_datetime(later))))
    assert refused(fetched, connect()).code == "AOTC-E772"


def test_wrong_bytes_are_refused(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, DIGEST] = DATA[:-1] + b"x"
    assert refused(fetched, connect(), kind=IntegrityError).code == "AOTC-E201"


@pytest.mark.parametrize("more", [-1, 1, 10**15])
def test_wrong_size_is_refused_early(more: int, server: OciServer, connect: Connect) -> None:
    server.faults.append(always(status(200, Content_Length=str(len(DATA) + more))))
    assert refused(fetched, connect(), kind=IntegrityError).code == "AOTC-E203"


def test_endless_body_is_read_up_to_its_size(server: OciServer, connect: Connect) -> None:
    server.faults.append(always(endless))
    assert refused(fetched, connect(), kind=IntegrityError).code == "AOTC-E203"
    assert server.sent_bytes < 2**28, "most of it was never taken"


@pytest.mark.parametrize("span", ["", "bytes 0-9/10", REST, "bytes 100-9/7"])
def test_other_ranges_are_refused(span: str, server: OciServer, connect: Connect) -> None:
    server.faults += [first(cut(100)), always(status(206, Content_Range=span))]
    assert refused(fetched, connect(), kind=RegistryError).code == "AOTC-E775"


def test_what_an_earlier_process_left_is_dropped_if_it_is_wrong(connect: Connect) -> None:
    sink = Memory()
    sink.write(b"other bytes")
    fetch_blob(connect(), DIGEST, len(DATA), sink)
    assert bytes(sink) == DATA


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
def test_upload_resumes(number: int, server: OciServer, connect: Connect) -> None:
    patches = [0]

    def third(handler: Handler) -> bool:
        patches[0] += handler.command == "PATCH"
        if handler.command == "PATCH" and patches[0] == 3:
            server.cut_body_at = number
        return False

    server.faults.append(third)
    assert pushed(connect())
    assert server.blobs[REPO, sha256(BIG)] == BIG
    assert server.count("POST", "uploads") == 1, "no upload was begun anew"
    sent = [int(a.headers["content-length"]) for a in server.asked if a.method == "PATCH"]
    assert sum(sent) <= len(BIG) + CHUNK


def test_an_upload_that_gets_on_may_break_more_often(server: OciServer, connect: Connect) -> None:
    tried = [0]

    def every_second(handler: Handler) -> bool:
        tried[0] += handler.command == "PATCH"
        if is_broken := handler.command == "PATCH" and tried[0] % 2 == 0:
            handler.answer(503)
        return is_broken

    server.faults.append(every_second)
    assert pushed(connect(tries=2))
    assert server.blobs[REPO, sha256(BIG)] == BIG


def test_chunks_wait_for_the_position(server: OciServer, connect: Connect) -> None:
    server.faults += [
        once(lambda handler: handler.hang_up(), "PATCH", "uploads"),
        once(status(503), "GET", "uploads"),
    ]
    assert pushed(connect())
    assert server.blobs[REPO, sha256(BIG)] == BIG
    methods = [each.method for each in server.asked]
    broken = methods.index("PATCH")
    assert methods[broken : broken + 4] == ["PATCH", "GET", "GET", "PATCH"]


@pytest.mark.parametrize(
    ("method", "code"), [("PATCH", None), ("PATCH", 404), ("PATCH", 416), ("PUT", 404)]
)
def test_lost_upload(method: str, code: int | None, server: OciServer, connect: Connect) -> None:
    def forget(handler: Handler) -> None:
        server.uploads.clear()
        handler.hang_up() if code is None else handler.answer(code)

    server.faults.append(once(forget, method, "uploads"))
    assert pushed(connect())
    assert server.blobs[REPO, sha256(BIG)] == BIG
    assert server.count("POST", "uploads") == 2


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "HEAD"])
@pytest.mark.parametrize("code", [429, 500, 503])
def test_upload_survives_fault(method: str, code: int, server: OciServer, connect: Connect) -> None:
    server.faults.append(once(status(code), method, "/blobs/"))
    assert pushed(connect())
    assert server.blobs[REPO, sha256(BIG)] == BIG


UPLOAD = "/v2/models/digits/blobs/uploads"


@pytest.mark.parametrize(
    ("method", "serve", "code"),
    [
        *((method, status(507), "AOTC-E775") for method in ("POST", "PATCH", "PUT")),
        ("POST", status(202), "AOTC-E775"),  # no place
        ("PATCH", status(202, Location=f"{UPLOAD}/1", Range="0-99999999"), "AOTC-E775"),
        ("PATCH", status(202, Location=f"{UPLOAD}/u0", Range="0-0"), "AOTC-E772"),
    ],
    ids=["POST", "PATCH", "PUT", "no place", "more than was sent", "never there"],
)
def test_an_upload_that_is_refused_is_given_up(
    method: str, serve: Fault, code: str, server: OciServer, connect: Connect
) -> None:
    server.faults.append(always(serve, method, "/blobs/"))
    assert refused(pushed, connect(), kind=RegistryError).code == code
    assert server.count(method, "/blobs/") == 1 or code == "AOTC-E772"
    assert (REPO, sha256(BIG)) not in server.blobs


def test_upload_stays_on_its_host(server: OciServer, other: OciServer, connect: Connect) -> None:
    there = f"http://{other.address}{UPLOAD}/1"
    server.faults.append(always(status(202, Location=there), "POST", "uploads"))
    assert refused(pushed, connect(), kind=RegistryError).code == "AOTC-E775"
    assert other.asked == []


@pytest.mark.parametrize("faults", [[], [once(status(503), "POST", "mount=")]])
def test_blob_is_mounted(faults: list[Fault], server: OciServer, connect: Connect) -> None:
    server.blobs["models/base", DIGEST] = server.blobs.pop((REPO, DIGEST))
    server.faults += faults
    there = connect()
    assert not push_blob(there, DIGEST, memoryview(DATA), ("models/none", "models/base"))
    assert server.blobs[REPO, DIGEST] == DATA
    assert server.count("PATCH", "") == server.count("PUT", "") == 0


def test_an_upload_that_a_mount_has_begun_is_used(server: OciServer, connect: Connect) -> None:
    del server.blobs[REPO, DIGEST]
    assert push_blob(connect(), DIGEST, memoryview(DATA), ("models/none",))
    assert server.blobs[REPO, DIGEST] == DATA
    assert server.count("POST", "uploads") == 1


def test_manifest_is_bounded_and_hashed(server: OciServer, connect: Connect) -> None:
    server.manifests[REPO, "1.0"] = (bytes(1001), "x")
    found = connect().manifest("1.0", 1001)
    assert found is not None and len(found.data) == 1001
    assert refused(connect().manifest, "1.0", 1000, kind=RegistryError).code == "AOTC-E775"
    server.manifests[REPO, DIGEST] = (b"{}", "x")
    assert refused(connect().manifest, DIGEST, kind=IntegrityError).code == "AOTC-E201"
    assert connect().manifest(sha256(b"root"), 100) is None
