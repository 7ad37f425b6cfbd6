"""Every way to verify that docs/signing.md shows works as it stands, and refuses what is wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.sign.signing_keys import KeyType
from aotc_runtime.formats import in_toto
from aotc_runtime.verification.public_keys import load_public_key

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
    elsewhere = ["Channels", "PKCS#11 tokens", "Writing a signer", "OpenSSF Model Signing"]
    elsewhere += ["Without key files"]
    assert sorted(with_code) == sorted([*setup, *elsewhere, SHA256SUM, OPENSSL, LIBRARIES])


def test_a_channel_names_what_is_deployed(signed: Path) -> None:
    pytest.importorskip("tuf", reason="pip install '.[channel]'")
    page.require("Channels", signed)
    assert {path.name for path in (signed / "channel").glob("*.root.json")} == {
        "1.root.json",
        "2.root.json",
    }


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


def test_a_bundle_that_its_builders_key_signed_three_times_is_verified_by_all(
    built_by_ci: Path,
) -> None:
    for heading in (SHA256SUM, OPENSSL, LIBRARIES):
        page.require(heading, built_by_ci)
    done = page.run(OPENSSL, built_by_ci)
    assert done.stdout.count("this bundle") == 2


def forge(folder: Path, name: str, kind: KeyType) -> None:
    """A stranger's provenance of this root before all others, which claims the key of `name`."""
    digits = folder / "digits"
    index = json.loads((digits / "index.json").read_text())
    root = next(e for e in index["manifests"] if e["mediaType"].endswith("index.v1+json"))
    (known,) = (
        document
        for blob in blobs(folder)
        if blob.stat().st_size < 2**16
        and (document := read_json(blob)).get("payloadType")
        and key_id(folder / f"{name}.pub") == document["signatures"][0]["keyid"]
        and b"aotc.dev/sign/v1" in base64.b64decode(document["payload"])
    )
    payload = base64.b64decode(known["payload"])
    message = in_toto.pre_authentication_encoding(known["payloadType"], payload)
    signature = LocalSigner.ephemeral(kind).sign(message)
    known["signatures"][0]["sig"] = base64.b64encode(signature).decode()

    def store(document: object) -> dict[str, object]:
        data = json.dumps(document).encode()
        digest = hashlib.sha256(data).hexdigest()
        (digits / "blobs" / "sha256" / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    manifest = {"layers": [{"mediaType": "application/vnd.in-toto+json", **store(known)}]}
    entry = {"mediaType": "application/vnd.oci.image.manifest.v1+json", **store(manifest)}
    index["manifests"] = [root, entry, *(e for e in index["manifests"] if e is not root)]
    (digits / "index.json").write_text(json.dumps(index))


def read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def key_id(public: Path) -> str:
    return load_public_key(public.read_text("utf-8"), "", "x").id


@pytest.mark.parametrize("options", ["-euo pipefail", "+e"])
@pytest.mark.parametrize("name", ["ci", "release"])
def test_openssl_refuses_a_strangers_envelope_that_claims_a_key_even_where_the_shell_goes_on(
    built_by_ci: Path, name: str, options: str
) -> None:
    page.require(SHA256SUM, built_by_ci)
    forge(built_by_ci, name, KeyType.ED25519 if name == "ci" else KeyType.ECDSA_P256)
    done = page.run(OPENSSL, built_by_ci, options)
    assert done.returncode != 0
    assert done.stdout.count("this bundle") == (0 if name == "ci" else 1)
    assert page.run(LIBRARIES, built_by_ci).returncode != 0


@pytest.mark.parametrize("name", ["ci", "release"])
def test_a_key_that_has_signed_nothing_is_told(built_by_ci: Path, name: str) -> None:
    (built_by_ci / f"{name}.pub").write_text(LocalSigner.ephemeral().public_pem())
    done = page.run(OPENSSL, built_by_ci, "+e")
    assert done.returncode != 0 and f"nothing signed by {name}.pub" in done.stderr
