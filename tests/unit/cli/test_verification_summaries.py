"""`aotc verify --summary`: read with the standard library and cryptography alone."""

import base64
import hashlib
import json
import shutil
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tests.conftest import Bundle, Run


@pytest.fixture
def verify(aotc: Run, digits_bundle: Bundle, tmp_path: Path) -> list[str]:
    """Make v.key and copies that may be changed; return a command that writes s.json."""
    shutil.copy(digits_bundle[0], tmp_path / "b.aotb")
    shutil.copy(digits_bundle[1], tmp_path / "trust my.toml")
    aotc("keygen", "v", "--plain")
    return [*("verify", "b.aotb", "--trust", "trust my.toml"), *("--summary", "s.json"), *KEY]


KEY = ("--key", "v.key")


def opened(envelope: bytes, public: bytes) -> dict[str, Any]:
    """Return the statement of a DSSE envelope that a key signed."""
    found = json.loads(envelope)
    kind, payload = found["payloadType"].encode(), base64.b64decode(found["payload"])
    message = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    (signature,) = found["signatures"]
    key, sig = load_pem_public_key(public), base64.b64decode(signature["sig"])
    if isinstance(key, ed25519.Ed25519PublicKey):
        key.verify(sig, message)
    else:
        assert isinstance(key, ec.EllipticCurvePublicKey)
        key.verify(sig, message, ec.ECDSA(hashes.SHA256()))
    assert kind == b"application/vnd.in-toto+json"
    statement: dict[str, Any] = json.loads(payload)
    return statement


def root_of(bundle: Path) -> str:
    """Return the digest in hex of the one index that a bundle's index.json describes."""
    with tarfile.open(bundle) as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        found = [each["digest"] for each in json.load(index)["manifests"]]
        blobs = {each: archive.extractfile(f"blobs/{each.replace(':', '/')}") for each in found}
        kind = "application/vnd.oci.image.index.v1+json"
        data = [blob.read() for blob in blobs.values() if blob is not None]
    (root,) = [each for each in data if json.loads(each)["mediaType"] == kind]
    return hashlib.sha256(root).hexdigest()


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa-p256"])
def test_summary_of_a_good_bundle_is_a_slsa_statement(
    aotc: Run, verify: list[str], tmp_path: Path, kind: str
) -> None:
    aotc("keygen", "other", "--plain", "--type", kind)
    done = aotc(*verify[:-1], "other.key", "--json")
    assert (done.exit_code, done.document["summary"]) == (0, "s.json"), done.stderr
    envelopes = (tmp_path / "s.json").read_bytes().splitlines()
    public = (tmp_path / "other.pub").read_bytes()
    statement, result = (opened(envelope, public) for envelope in envelopes)
    root = root_of(tmp_path / "b.aotb")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/verification_summary/v1"
    assert statement["subject"] == [{"name": "digits-1.0.0", "digest": {"sha256": root}}]
    found = statement["predicate"]
    policy = hashlib.sha256((tmp_path / "trust my.toml").read_bytes()).hexdigest()
    assert found["policy"] == {"uri": "trust%20my.toml", "digest": {"sha256": policy}}
    assert (found["verificationResult"], found["resourceUri"]) == (
        "PASSED",
        "pkg:generic/digits@1.0.0",
    )
    assert found["verifier"] == {"id": "https://aotc.dev/verifier", "version": {"aotc": "0.1.0"}}
    assert found["verifiedLevels"] == ["SLSA_BUILD_LEVEL_UNEVALUATED"]
    age = datetime.now(UTC) - datetime.fromisoformat(found["timeVerified"])
    assert timedelta() <= age < timedelta(minutes=10)
    details = found["https://aotc.dev/verification/v1"]
    assert details["signers"] == done.document["signers"]
    assert details["gates"][-1] == "host" and "digests" in details["gates"]
    assert str(tmp_path) not in json.dumps(statement)
    assert result["predicateType"] == "https://in-toto.io/attestation/svr/v0.2"
    assert result["subject"] == statement["subject"]
    assert result["predicate"] == {
        "verifier": {"id": found["verifier"]["id"], "policies": [found["policy"]]},
        "timeCreated": found["timeVerified"],
        "properties": [f"AOTC_{gate.upper()}" for gate in details["gates"]],
    }
    for envelope in envelopes:
        with pytest.raises(InvalidSignature):
            opened(envelope, (tmp_path / "v.pub").read_bytes())
    assert aotc(*verify).exit_code == 0, "an older summary is replaced"


def test_nothing_is_written_for_what_does_not_pass(
    refused: Run, verify: list[str], tmp_path: Path
) -> None:
    data = (tmp_path / "b.aotb").read_bytes()
    (tmp_path / "b.aotb").write_bytes(data[:-4096] + bytes([data[-4096] ^ 1]) + data[-4095:])
    refused(verify, 5, "AOTC-E201")
    (tmp_path / "b.aotb").write_bytes(data)
    refused([*verify, "--target", "cpu-aarch64"], 7, "AOTC-E505")
    policy = tmp_path / "trust my.toml"
    policy.write_text(policy.read_text("utf-8").replace('name = "digits"', 'name = "other"', 1))
    refused(verify, 5, "AOTC-E306")
    refused([*verify[:-1], "gone.key"], 2, "AOTC-E006")
    assert not (tmp_path / "s.json").exists()


def test_summary_is_refused_where_it_would_promise_more_than_was_checked(
    refused: Run, verify: list[str], tmp_path: Path
) -> None:
    reference = "oci://registry.invalid/digits@sha256:" + "0" * 64
    told = refused([verify[0], reference, *verify[2:]], 2, "AOTC-E001")
    assert "--summary of a reference needs --full" in told.stderr
    refused(verify[:-2], 2, "AOTC-E001")
    refused([*verify[:4], *KEY], 2, "AOTC-E001")
    for other in ("b.aotb", "v.key", "trust my.toml"):
        before = (tmp_path / other).read_bytes()
        refused([*verify[:4], "--summary", other, *KEY], 2, "AOTC-E004")
        assert (tmp_path / other).read_bytes() == before
    with (tmp_path / "trust my.toml").open("a") as file:
        file.write('[channel]\nname = "production"\nsource = "c"\nroot_file = "r"\nstate = "s"\n')
    assert "--summary needs --channel" in refused(verify, 2, "AOTC-E001").stderr
    assert not (tmp_path / "s.json").exists()
