"""Every way to verify that signing.md shows works as it stands, and refuses what is wrong."""

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from in_toto.models.metadata import Metadata
from securesystemslib.signer import SSlibKey

from aotc.bundle.sign.signer import KeyType, LocalSigner
from aotc_runtime.formats import in_toto
from aotc_runtime.verification.public_keys import load_public_key
from tests.documented import blocks_of, run_section, sections_of

from .conftest import PAGE, require

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
    with_code = [heading for heading in sections_of(PAGE) if blocks_of(PAGE, heading)]
    setup = ["Keys", "Signing", "Verifying without aotc"]
    elsewhere = ["Channels", "PKCS#11 tokens", "Writing a signer", "OpenSSF Model Signing"]
    elsewhere += ["Without key files"]
    assert sorted(with_code) == sorted([*setup, *elsewhere, SHA256SUM, OPENSSL, LIBRARIES])


def test_a_channel_names_what_is_deployed(signed: Path) -> None:
    pytest.importorskip("tuf", reason="pip install '.[channel]'")
    require("Channels", signed)
    assert {path.name for path in (signed / "channel").glob("*.root.json")} == {
        "1.root.json",
        "2.root.json",
    }


def test_sha256sum_finds_every_digest_right_in_both_forms(signed: Path) -> None:
    require(SHA256SUM, signed)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["a folder", "an archive", "missing"])
def test_sha256sum_finds_a_blob_that_is_changed_or_missing(how: str, signed: Path) -> None:
    blob, said = content_of(signed)[-1], ""
    if how == "missing":
        blob.unlink()
        said = f"missing: sha256:{blob.name}\n"
    elif how == "a folder":
        flip(blob, blob.stat().st_size // 2)
    else:
        with tarfile.open(signed / "digits.aotb") as archive:
            member = archive.getmembers()[-1]
        flip(signed / "digits.aotb", member.offset_data)
        said = f"damaged: {member.name}\n"
    done = run_section(PAGE, SHA256SUM, signed)
    assert done.returncode != 0 and said in done.stdout


def other_payload(envelope: Path) -> None:
    document = json.loads(envelope.read_text("utf-8"))
    payload = base64.b64decode(document["payload"])
    document["payload"] = base64.b64encode(payload.replace(b"digits", b"digitz")).decode()
    envelope.write_text(json.dumps(document), "utf-8")


@pytest.mark.parametrize("name", ["ci", "release"])
def test_an_envelope_that_was_changed_after_signing_is_refused(unpacked: Path, name: str) -> None:
    envelope = unpacked / f"{name}.json"
    (blob,) = (each for each in blobs(unpacked) if each.read_bytes() == envelope.read_bytes())
    other_payload(envelope)
    assert run_section(PAGE, LIBRARIES, unpacked).returncode != 0
    other_payload(blob)
    done = run_section(PAGE, OPENSSL, unpacked)
    assert done.returncode != 0
    assert done.stdout.count("this bundle") == (0 if name == "ci" else 1)


@pytest.mark.parametrize("name", ["ci", "release"])
def test_another_key_is_refused(unpacked: Path, name: str) -> None:
    """The envelope is found by the id of the genuine key; what is verified against is another."""
    kind = KeyType.ED25519 if name == "ci" else KeyType.ECDSA_P256
    (unpacked / f"{name}.pub").write_text(LocalSigner.ephemeral(kind).public_pem())
    assert run_section(PAGE, LIBRARIES, unpacked).returncode != 0
    assert run_section(PAGE, OPENSSL, unpacked).returncode != 0


def test_bundle_signed_three_times_is_verified_by_all(built_by_ci: Path) -> None:
    for heading in (SHA256SUM, OPENSSL, LIBRARIES):
        require(heading, built_by_ci)
    assert run_section(PAGE, OPENSSL, built_by_ci).stdout.count("this bundle") == 2


def test_both_kinds_of_signatures_are_verified(unpacked: Path) -> None:
    assert run_section(PAGE, OPENSSL, unpacked).stdout.count("this bundle") == 2
    require(LIBRARIES, unpacked)


@pytest.mark.parametrize("name", ["ci", "release"])
def test_in_toto_verifies_with_its_own_classes(unpacked: Path, name: str) -> None:
    envelope = Metadata.load(str(unpacked / f"{name}.json"))
    (keyid,) = envelope.signatures
    public = load_pem_public_key((unpacked / f"{name}.pub").read_bytes())
    key = SSlibKey.from_crypto(public, keyid=keyid).to_dict()
    envelope.verify_signature({"keyid": keyid, **key})  # raises


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
def test_openssl_refuses_a_forged_key_id(built_by_ci: Path, name: str, options: str) -> None:
    require(SHA256SUM, built_by_ci)
    forge(built_by_ci, name, KeyType.ED25519 if name == "ci" else KeyType.ECDSA_P256)
    done = run_section(PAGE, OPENSSL, built_by_ci, options)
    assert done.returncode != 0
    assert done.stdout.count("this bundle") == (0 if name == "ci" else 1)
    assert run_section(PAGE, LIBRARIES, built_by_ci).returncode != 0


@pytest.mark.parametrize("name", ["ci", "release"])
def test_a_key_that_has_signed_nothing_is_told(built_by_ci: Path, name: str) -> None:
    (built_by_ci / f"{name}.pub").write_text(LocalSigner.ephemeral().public_pem())
    done = run_section(PAGE, OPENSSL, built_by_ci, "+e")
    assert done.returncode != 0 and f"nothing signed by {name}.pub" in done.stderr


def test_model_signing_refuses_a_changed_bundle(model_signing: None, signed: Path) -> None:
    require("OpenSSF Model Signing", signed)
    index = signed / "digits" / "index.json"
    index.write_bytes(index.read_bytes() + b" ")
    program = Path(sys.executable).parent / "model_signing"
    verifying = ["verify", "key", "digits", "--signature", "model.sig", "--public_key"]
    done = subprocess.run([program, *verifying, "release.pub"], cwd=signed, check=False)
    assert done.returncode != 0
