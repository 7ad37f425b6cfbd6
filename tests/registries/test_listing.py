"""Tests of a registry's other responses: delays, messages, lists, identity."""

import json
from pathlib import Path

import pytest

from aotc.commands.registry.bundle_push import push
from aotc_runtime.base.errors import RegistryError
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import Descriptor, Entry
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_serve.oci import registry_listing
from aotc_serve.oci.registry_blobs import fetch_blob
from aotc_serve.oci.registry_client import _retry_after
from aotc_serve.oci.registry_listing import (
    CANDIDATES_MAX,
    Listing,
    Memory,
    _next,
    fetch_attestations,
    fetch_documents,
    referrers,
    resolve,
    small,
    tags,
)
from tests.registries.conftest import LAYERS, Connect, refused
from tests.registries.faults import DATA, DIGEST, REPO, always, fetched, status
from tests.registries.oci_server import INDEX, OciServer, sha256

ROOT_DIGEST = sha256(b"root")


pytestmark = pytest.mark.usefixtures("stored")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("999999999", 999_999_999.0),
        ("1000000000", None),
        ("\u0667", None),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0),
        ("Mon, 01 Jan 2001 00:00:00 -0000", None),
        ("soon", None),
    ],
)
def test_how_long_to_wait_is_read_as_http_has_it(text: str, seconds: float | None) -> None:
    assert _retry_after(text) == seconds


@pytest.mark.parametrize(
    ("body", "told"),
    [(b"no quota left", True), (b"<html>no quota left</html>", False), (b"", False)],
)
def test_errors_are_quoted(body: bytes, told: bool, server: OciServer, connect: Connect) -> None:
    server.faults.append(always(status(400, body)))
    found = refused(fetched, connect()).found
    assert ("quota" in found) is told and not found.endswith((":", ": "))


def test_redirected_is_asked_once(secure: OciServer, connect: Connect, tmp_path: Path) -> None:
    """Its certificate will be no better later."""
    place = f"localhost:{secure.server_port}"
    told = refused(fetched, connect(address=place, ca=tmp_path / "ca.pem"))
    assert told.code == "AOTC-E772" and "CERTIFICATE" in told.found.upper()
    assert "times" not in told.found


def test_a_registry_with_tls_sends_nobody_on_without_it(
    secure: OciServer, server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    repository = connect(address=secure.address, ca=tmp_path / "ca.pem")
    secure.blobs["stored", DIGEST] = server.blobs["stored", DIGEST] = DATA
    for origin in (f"https://{secure.address}", f"http://{server.address}"):
        there = f"{origin}/v2/stored/blobs/{DIGEST}"
        secure.faults[:] = [always(status(307, Location=there), "GET", f"{REPO}/blobs")]
        if origin.startswith("https"):
            assert fetched(repository) == DATA
        else:
            assert refused(fetched, repository, kind=RegistryError).code == "AOTC-E775"
    assert not server.asked


def test_redirect_with_choices_is_followed(server: OciServer, connect: Connect) -> None:
    server.blobs["stored", DIGEST] = DATA
    server.faults += [
        always(status(307, Location="/choices"), "GET", f"{REPO}/blobs"),
        always(status(300, Location=f"/v2/stored/blobs/{DIGEST}"), "GET", "/choices"),
    ]
    assert fetched(connect()) == DATA
    server.faults[1] = always(status(400), "GET", "/choices")
    server.asked.clear()
    assert "400" in refused(fetched, connect()).found and server.count("GET", "/choices") == 1


@pytest.mark.parametrize("listed", [True, False])
def test_listing_support_is_told(listed: bool, server: OciServer, connect: Connect) -> None:
    server.referrers = listed
    subject = {"mediaType": oci_layout.INDEX_TYPE, "digest": ROOT_DIGEST, "size": 4}
    data = json.dumps({"schemaVersion": 2, "subject": subject}).encode()
    assert connect().put_manifest(sha256(data), data, oci_layout.MANIFEST_TYPE) is listed


def test_a_list_that_is_refused_is_no_list(server: OciServer, connect: Connect) -> None:
    server.faults.append(always(status(403, b'{"tags": ["sha256-1"]}'), "GET", "/tags/"))
    assert refused(tags, connect(), "sha256-").code == "AOTC-E773"


def test_small_blob_is_bounded_and_may_be_empty(server: OciServer, connect: Connect) -> None:
    repository = connect()
    reference = Descriptor(mediaType="x", digest=DIGEST, size=len(DATA))
    assert small(repository, reference, len(DATA)) == DATA
    asked = len(server.asked)
    assert refused(small, repository, reference, len(DATA) - 1).code == "AOTC-E111"
    assert len(server.asked) == asked
    server.blobs[REPO, sha256(b"")] = b""
    sink = Memory()
    fetch_blob(repository, sha256(b""), 0, sink)
    assert bytes(sink) == b""


@pytest.mark.parametrize("more", [0, 1])
def test_referrers_are_bounded(more: int, server: OciServer, connect: Connect) -> None:
    entries = [
        {"mediaType": oci_layout.MANIFEST_TYPE, "digest": sha256(b"%d" % number), "size": 2}
        for number in range(CANDIDATES_MAX + more)
    ]
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
    server.faults.append(always(status(200, index), "GET", "/referrers/"))
    if not more:
        assert len(referrers(connect(), ROOT_DIGEST)) == CANDIDATES_MAX
        return
    told = refused(referrers, connect(), ROOT_DIGEST)
    assert told.code == "AOTC-E775" and "referrers" in told.expected


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ('</v2/models/digits/tags/list?last=b&n=9>; rel="next"', "tags/list?last=b&n=9"),
        ('</v2/models/digits/_catalog?last=b>; rel="next"', ""),
        ("", ""),
    ],
)
def test_a_next_page_is_one_of_the_same_list(link: str, path: str) -> None:
    assert _next(link, "tags/list") == path


def test_documents_that_a_listing_lacks_are_none() -> None:
    entry = Entry(mediaType=oci_layout.INDEX_TYPE, digest=ROOT_DIGEST, size=4)
    documents = Listing(entry, (), (), (), {ROOT_DIGEST: b"root"}).as_bundle("here")
    assert documents.blob(ROOT_DIGEST) == b"root" and documents.blob(DIGEST) is None
    assert documents.file(oci_layout.INDEX_FILE) is not None and documents.file("other") is None


def test_manifests_of_all_targets_are_bounded_before_they_are_fetched(
    server: OciServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = push(open_streamed(LAYERS), connect(), None, 0.0).place
    there = connect(f"{REPO}@{place.digest}")
    attested = fetch_attestations(there, resolve(there))
    found = fetch_documents(there, attested)
    digests = [d for t in found.targets for d in (t.reference.digest, t.image.config.digest)]
    size = sum(len(found.documents[digest]) for digest in digests)
    monkeypatch.setattr(registry_listing, "DOCUMENTS_BYTES_MAX", size)
    assert fetch_documents(there, attested) == found
    monkeypatch.setattr(registry_listing, "DOCUMENTS_BYTES_MAX", size - 1)
    asked = server.count("GET", found.targets[0].image.config.digest)
    assert refused(fetch_documents, there, attested).code == "AOTC-E111"
    assert server.count("GET", found.targets[0].image.config.digest) == asked
