"""Every way to verify that docs/signing.md shows works as it stands, and refuses what is wrong."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.signing.keys import KeyType
from aotc.signing.signer import LocalSigner

from . import page

SHA256SUM = "Digests, with sha256sum"
OPENSSL = "Signatures, with openssl"
LIBRARIES = "Signatures, with securesystemslib and in-toto"


def blobs(folder: Path) -> list[Path]:
    return sorted((folder / "digits" / "blobs" / "sha256").iterdir())


def content_of(folder: Path) -> list[Path]:
    """The blobs that the root reaches, without itself."""
    index = json.loads((folder / "digits" / "index.json").read_text())
    (root,) = (e for e in index["manifests"] if e["mediaType"].endswith("index.v1+json"))
    place = folder / "digits" / "blobs" / "sha256"
    images = json.loads((place / root["digest"][7:]).read_text())["manifests"]
    image = json.loads((place / images[0]["digest"][7:]).read_text())
    return [place / layer["digest"][7:] for layer in (image["config"], *image["layers"])]


def test_every_section_of_the_page_is_known_here() -> None:
    with_code = [heading for heading in page.headings() if page.blocks(heading)]
    setup = ["Keys", "Signing", "Verifying without aotc"]
    elsewhere = ["PKCS#11 tokens", "Writing a signer", "OpenSSF Model Signing"]
    assert sorted(with_code) == sorted([*setup, *elsewhere, SHA256SUM, OPENSSL, LIBRARIES])


def test_sha256sum_finds_every_digest_right_in_both_forms(signed: Path) -> None:
    page.require(SHA256SUM, signed)


@pytest.mark.parametrize("number", range(3))
def test_sha256sum_finds_a_changed_blob_of_a_folder(signed: Path, number: int) -> None:
    blob = content_of(signed)[number]
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.write_bytes(data)
    assert page.run(SHA256SUM, signed).returncode != 0


def test_sha256sum_finds_a_changed_blob_of_an_archive(signed: Path) -> None:
    with tarfile.open(signed / "digits.aotb") as archive:
        member = archive.getmembers()[-1]
    data = bytearray((signed / "digits.aotb").read_bytes())
    data[member.offset_data] ^= 1
    (signed / "digits.aotb").write_bytes(data)
    done = page.run(SHA256SUM, signed)
    assert done.returncode != 0
    assert done.stdout == f"damaged: {member.name}\n"


def test_a_missing_blob_is_found(signed: Path) -> None:
    blob = content_of(signed)[-1]
    blob.unlink()
    done = page.run(SHA256SUM, signed)
    assert done.returncode != 0
    assert done.stdout == f"missing: sha256:{blob.name}\n"


def test_openssl_verifies_both_kinds_of_signatures(unpacked: Path) -> None:
    done = page.run(OPENSSL, unpacked)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("this bundle") == 2


def test_securesystemslib_and_in_toto_verify_both_kinds_of_signatures(unpacked: Path) -> None:
    page.require(LIBRARIES, unpacked)


def other_payload(envelope: Path) -> None:
    document = json.loads(envelope.read_text("utf-8"))
    payload = base64.b64decode(document["payload"])
    document["payload"] = base64.b64encode(payload.replace(b"digits", b"digitz")).decode()
    envelope.write_text(json.dumps(document), "utf-8")


def other_type(envelope: Path) -> None:
    document = json.loads(envelope.read_text("utf-8"))
    envelope.write_text(
        json.dumps({**document, "payloadType": "application/vnd.in-toto+jsom"}), encoding="utf-8"
    )


@pytest.mark.parametrize("name", ["ci", "release"])
@pytest.mark.parametrize("change", [other_payload, other_type])
def test_the_libraries_refuse_what_was_changed_after_signing(
    unpacked: Path, name: str, change: Callable[[Path], None]
) -> None:
    change(unpacked / f"{name}.json")
    assert page.run(LIBRARIES, unpacked).returncode != 0


@pytest.mark.parametrize("name", ["ci", "release"])
def test_openssl_refuses_an_envelope_that_was_changed_after_signing(
    unpacked: Path, name: str
) -> None:
    envelope = (unpacked / f"{name}.json").read_bytes()
    (blob,) = (blob for blob in blobs(unpacked) if blob.read_bytes() == envelope)
    other_payload(blob)
    done = page.run(OPENSSL, unpacked)
    assert done.returncode != 0
    assert done.stdout.count("this bundle") == (0 if name == "ci" else 1)


@pytest.mark.parametrize("name", ["ci", "release"])
def test_another_key_is_refused(unpacked: Path, name: str) -> None:
    """The envelope is found by the id of the genuine key; what is verified against is another."""
    kind = KeyType.ED25519 if name == "ci" else KeyType.ECDSA_P256
    (unpacked / f"{name}.pub").write_text(LocalSigner.ephemeral(kind).public_pem())
    assert page.run(LIBRARIES, unpacked).returncode != 0
    assert page.run(OPENSSL, unpacked).returncode != 0
