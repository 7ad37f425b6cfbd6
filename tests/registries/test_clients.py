"""What a registry answers besides blobs: places, waits, words, lists; and who it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aotc.commands.registry.bundle_push import push
from aotc_runtime.base.errors import AotcError, RegistryError
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import Descriptor, Entry
from aotc_runtime.system.streamed_bundle import look_into
from aotc_serve.oci import registry_listing
from aotc_serve.oci.registry_client import _retry_after
from aotc_serve.oci.registry_listing import (
    CANDIDATES_MAX,
    Documents,
    Listing,
    _next,
    fetch_attestations,
    fetch_documents,
    referrers,
    resolve,
    small,
    tags,
)
from tests.registries.conftest import LAYERS, Connect
from tests.registries.oci_server import INDEX, OciServer, sha256
from tests.registries.test_blobs import DATA, DIGEST, REPO, always, fetched, pushed, status

ROOT_DIGEST = sha256(b"root")


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
    ("place", "found"),
    [
        ("http://[::1/x", "no place"),
        ("http://127.0.0.1:port/x", "no place"),
        ("https:///x", "https:"),
        ("ftp://127.0.0.1/x", "ftp:"),
        ("http://example.org/x", "without TLS"),
    ],
)
def test_a_redirect_to_nowhere_is_refused(
    place: str, found: str, server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults.append(always(status(307, Location=place)))
    with pytest.raises(RegistryError) as caught:
        fetched(connect())
    assert caught.value.code == "AOTC-E775" and found in caught.value.findings[0].found


def test_an_upload_without_a_place_is_refused(server: OciServer, connect: Connect) -> None:
    server.faults.append(always(status(202), "POST", "uploads"))
    with pytest.raises(RegistryError) as caught:
        pushed(connect())
    assert caught.value.code == "AOTC-E775"
    assert "no place for the upload" in caught.value.findings[0].found


@pytest.mark.parametrize(
    ("body", "told"),
    [(b"no quota left", True), (b"<html>no quota left</html>", False), (b"", False)],
)
def test_a_registry_is_quoted_unless_it_answers_a_page(
    body: bytes, told: bool, server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.faults.append(always(lambda handler: handler.answer(400, body, {})))
    with pytest.raises(RegistryError) as caught:
        fetched(connect())
    found = caught.value.findings[0].found
    assert ("quota" in found) is told and not found.endswith((":", ": "))


def test_a_registry_that_is_another_is_asked_once(
    secure: OciServer, connect: Connect, tmp_path: Path
) -> None:
    """Its certificate will be no better later."""
    place = f"localhost:{secure.server_port}"
    with pytest.raises(RegistryError) as caught:
        fetched(connect(address=place, ca=tmp_path / "ca.pem"))
    found = caught.value.findings[0].found
    assert caught.value.code == "AOTC-E772" and "CERTIFICATE" in found.upper()
    assert "times" not in found


def test_a_registry_with_tls_sends_nobody_on_without_it(
    secure: OciServer, server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    repository = connect(address=secure.address, ca=tmp_path / "ca.pem")
    secure.blobs["stored", DIGEST] = server.blobs["stored", DIGEST] = DATA
    place = f"/v2/stored/blobs/{DIGEST}"
    secure.faults.append(
        always(status(307, Location=f"https://{secure.address}{place}"), "GET", f"{REPO}/blobs")
    )
    assert fetched(repository) == DATA
    secure.faults[:] = [
        always(status(307, Location=f"http://{server.address}{place}"), "GET", f"{REPO}/blobs")
    ]
    with pytest.raises(RegistryError) as caught:
        fetched(repository)
    assert caught.value.code == "AOTC-E775" and not server.asked


def test_a_place_that_sends_on_with_choices_is_followed(
    server: OciServer, connect: Connect
) -> None:
    server.blobs["stored", DIGEST] = DATA
    server.faults += [
        always(status(307, Location="/choices"), "GET", f"{REPO}/blobs"),
        always(status(300, Location=f"/v2/stored/blobs/{DIGEST}"), "GET", "/choices"),
    ]
    assert fetched(connect()) == DATA


def test_a_place_that_refuses_is_told_as_that(server: OciServer, connect: Connect) -> None:
    server.faults += [
        always(status(307, Location="/stored"), "GET", f"{REPO}/blobs"),
        always(status(400), "GET", "/stored"),
    ]
    with pytest.raises(RegistryError) as caught:
        fetched(connect())
    assert "400" in caught.value.findings[0].found and server.count("GET", "/stored") == 1


def test_a_manifest_that_is_not_there_is_none(connect: Connect) -> None:
    assert connect().manifest(ROOT_DIGEST, 100) is None


@pytest.mark.parametrize("listed", [True, False])
def test_a_registry_says_whether_it_lists_what_refers(
    listed: bool, server: OciServer, connect: Connect
) -> None:
    server.referrers = listed
    subject = {"mediaType": oci_layout.INDEX_TYPE, "digest": ROOT_DIGEST, "size": 4}
    data = json.dumps({"schemaVersion": 2, "subject": subject}).encode()
    assert connect().put_manifest(sha256(data), data, oci_layout.MANIFEST_TYPE) is listed


def test_a_list_that_is_refused_is_no_list(server: OciServer, connect: Connect) -> None:
    denied = b'{"tags": ["sha256-1"]}'
    server.faults.append(always(lambda handler: handler.answer(403, denied), "GET", "/tags/"))
    with pytest.raises(RegistryError) as caught:
        tags(connect(), "sha256-")
    assert caught.value.code == "AOTC-E773"


def test_a_small_blob_has_at_most_so_many_bytes(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, DIGEST] = DATA
    repository = connect()
    reference = Descriptor(mediaType="x", digest=DIGEST, size=len(DATA))
    assert small(repository, reference, len(DATA)) == DATA
    asked = len(server.asked)
    with pytest.raises(AotcError) as caught:
        small(repository, reference, len(DATA) - 1)
    assert caught.value.code == "AOTC-E111" and len(server.asked) == asked


@pytest.mark.parametrize("more", [0, 1])
def test_a_root_has_at_most_so_many_referrers(
    more: int, server: OciServer, connect: Connect
) -> None:
    entries = [
        {"mediaType": oci_layout.MANIFEST_TYPE, "digest": sha256(b"%d" % number), "size": 2}
        for number in range(CANDIDATES_MAX + more)
    ]
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
    server.faults.append(always(lambda handler: handler.answer(200, index), "GET", "/referrers/"))
    if not more:
        assert len(referrers(connect(), ROOT_DIGEST)) == CANDIDATES_MAX
        return
    with pytest.raises(RegistryError) as caught:
        referrers(connect(), ROOT_DIGEST)
    assert caught.value.code == "AOTC-E775" and "referrers" in caught.value.findings[0].expected


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
    documents = Documents("here", Listing(entry, (), (), (), {ROOT_DIGEST: b"root"}))
    assert documents.blob(ROOT_DIGEST) == b"root" and documents.blob(DIGEST) is None
    assert documents.file(oci_layout.INDEX_FILE) is not None and documents.file("other") is None


def test_manifests_of_all_targets_are_bounded_before_they_are_fetched(
    server: OciServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect() as there:
        place = push(look_into(LAYERS), there, None, 0.0).place
    with connect(f"{REPO}@{place.digest}") as there:
        attested = fetch_attestations(there, resolve(there))
        found = fetch_documents(there, attested)
        digests = [d for t in found.targets for d in (t.reference.digest, t.image.config.digest)]
        size = sum(len(found.documents[digest]) for digest in digests)
        monkeypatch.setattr(registry_listing, "DOCUMENTS_BYTES_MAX", size)
        assert fetch_documents(there, attested) == found
        monkeypatch.setattr(registry_listing, "DOCUMENTS_BYTES_MAX", size - 1)
        asked = server.count("GET", found.targets[0].image.config.digest)
        with pytest.raises(AotcError) as caught:
            fetch_documents(there, attested)
    assert caught.value.code == "AOTC-E111"
    assert server.count("GET", found.targets[0].image.config.digest) == asked
