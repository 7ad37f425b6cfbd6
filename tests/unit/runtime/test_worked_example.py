"""The worked example of bundle-format.md is right to the byte: by other code, and by ours."""

import base64
import hashlib
import json
import re
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats import oci_layout
from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy
from aotc_runtime.verification.bundle_contents import _check_root
from aotc_runtime.verification.public_keys import load_public_key
from aotc_runtime.verification.root_signatures import accepted_provenance

from .samples import refused

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "bundle-format.md").read_text()
SECTION = PAGE[PAGE.index("## Example, byte by byte") :]
BLOCKS = re.findall(r"```(?:text|json)\n(.*?)\n```", SECTION, re.DOTALL)
ROOT, PEM, DER, STATEMENT, ENCODED, SIGNATURE, ENVELOPE = BLOCKS

SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
"""RFC 8032, 7.1, TEST 1."""


def joined(block: str) -> bytes:
    return block.replace("\n", "").encode()


def test_every_digest_and_length_is_what_the_page_says() -> None:
    root, statement, envelope = joined(ROOT), joined(STATEMENT), joined(ENVELOPE)
    for data in (root, statement, envelope):
        text = json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"))
        assert text.encode() == data
        assert f"{len(data)} bytes" in SECTION
    for data in (root, envelope):
        assert f"`sha256:{hashlib.sha256(data).hexdigest()}`" in SECTION
    assert f"`{hashlib.sha256(bytes.fromhex(DER)).hexdigest()}`" in SECTION
    assert "".join(PEM.splitlines()[1:-1]).encode() == base64.b64encode(bytes.fromhex(DER))
    (subject,) = json.loads(statement)["subject"]
    assert subject["digest"] == {"sha256": hashlib.sha256(root).hexdigest()}
    assert base64.b64decode(json.loads(envelope)["payload"]) == statement


def test_the_key_makes_the_signature_over_what_is_signed() -> None:
    statement = joined(STATEMENT)
    signed = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(statement), statement)
    assert signed.startswith(ENCODED.encode()) and f"{len(signed)} bytes" in SECTION
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SEED))
    assert bytes.fromhex(DER)[12:] == key.public_key().public_bytes_raw()
    assert key.sign(signed).hex() == SIGNATURE
    (signature,) = json.loads(joined(ENVELOPE))["signatures"]
    assert base64.b64decode(signature["sig"]).hex() == SIGNATURE


def test_our_readers_read_it_so() -> None:
    root = canonical_json.decode(joined(ROOT), oci_layout.RootIndex, where="x")
    assert canonical_json.encode(root) == joined(ROOT)
    _check_root(root, "x")
    key = load_public_key(PEM, "", "x")
    assert f"`{key.id}`" in SECTION
    policy = TrustPolicy(schema=1, name="example", keys=(TrustedKey(public_key=PEM),))
    (found,) = accepted_provenance([joined(ENVELOPE)], sha256(joined(ROOT)), policy, "x", 0.0)
    assert found.signers == {key.id}
    with refused("AOTC-E305"):
        accepted_provenance([joined(ENVELOPE)], sha256(b"another root"), policy, "x", 0.0)
