"""model.sig: what is written reads back, and everything else is refused by code.

That model_signing itself agrees is in tests/interop.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from aotc.base.errors import UsageError
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.sign.signing_keys import KeyType
from aotc.commands.attest.openssf_signing import (
    FILES_NAMED_MAX,
    SIGNATURE_BYTES_MAX,
    differences,
    model_signature,
    verified_files,
)
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import TrustError
from aotc_runtime.formats import in_toto
from aotc_runtime.verification.public_keys import PublicKey, load_public_key

SIGNER = LocalSigner.ephemeral(KeyType.ECDSA_P256)
KEY = load_public_key(SIGNER.public_pem(), "", "k.pub")
FILES = {
    "oci-layout": sha256(b"layout"),
    "index.json": sha256(b"index"),
    "blobs/sha256/00": sha256(b"blob"),
}
GOOD = model_signature(FILES, "digits-1.0.0", SIGNER)
Document = dict[str, Any]


def payload_of(data: bytes) -> Document:
    statement: Document = json.loads(base64.b64decode(json.loads(data)["dsseEnvelope"]["payload"]))
    return statement


def signed(payload: bytes, kind: str = in_toto.PAYLOAD_TYPE, signer: LocalSigner = SIGNER) -> bytes:
    """A bundle around any payload, with a good signature."""
    document = json.loads(GOOD)
    signature = signer.sign(in_toto.pre_authentication_encoding(kind, payload))
    document["dsseEnvelope"] = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": kind,
        "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
    }
    return json.dumps(document).encode()


def refusal(data: bytes, key: PublicKey = KEY) -> str:
    with pytest.raises(TrustError) as caught:
        verified_files(data, key, "model.sig")
    (finding,) = caught.value.findings
    assert finding.where.startswith("model.sig")
    return finding.code


def test_what_is_written_reads_back() -> None:
    assert verified_files(GOOD, KEY, "model.sig") == FILES
    assert not list(differences(FILES, FILES, "b"))


def test_the_document_is_that_of_model_signing_1_1() -> None:
    document = json.loads(GOOD)
    assert document["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    hint = sha256(SIGNER.public_pem().encode()).removeprefix("sha256:")
    material = {"publicKey": {"hint": hint}, "tlogEntries": []}
    assert document["verificationMaterial"] == material
    statement = payload_of(GOOD)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://model_signing/signature/v1.0"
    names = [resource["name"] for resource in statement["predicate"]["resources"]]
    assert names == ["blobs/sha256/00", "index.json", "oci-layout"]
    digests = b"".join(bytes.fromhex(FILES[name].removeprefix("sha256:")) for name in names)
    root = sha256(digests).removeprefix("sha256:")
    assert statement["subject"] == [{"name": "digits-1.0.0", "digest": {"sha256": root}}]


def test_the_same_files_give_the_same_bytes() -> None:
    assert model_signature(dict(reversed(FILES.items())), "digits-1.0.0", SIGNER) == GOOD


def test_a_key_that_model_signing_does_not_take_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        model_signature(FILES, "digits-1.0.0", LocalSigner.ephemeral())
    assert caught.value.code == "AOTC-E021"


def without(path: str) -> Callable[[Document], None]:
    def remove(document: Document) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            document = document[parent]
        del document[last]

    return remove


def setting(path: str, value: object) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            document = document[parent]
        document[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        without("mediaType"),
        without("verificationMaterial"),
        without("verificationMaterial.publicKey"),
        without("dsseEnvelope"),
        without("dsseEnvelope.payload"),
        setting("mediaType", "application/vnd.dev.sigstore.bundle.v0.2+json"),
        setting("dsseEnvelope.signatures", []),
        setting("dsseEnvelope.signatures", json.loads(GOOD)["dsseEnvelope"]["signatures"] * 2),
        setting("dsseEnvelope.payload", "!"),
        setting("dsseEnvelope.signatures", [{"sig": "!"}]),
        setting("dsseEnvelope.signatures", [{}]),
        setting("dsseEnvelope", []),
    ],
)
def test_a_document_of_another_shape_is_refused(change: Callable[[Document], None]) -> None:
    document = json.loads(GOOD)
    change(document)
    assert refusal(json.dumps(document).encode()) == "AOTC-E351"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        GOOD[:-20],
        GOOD + b"x",
        GOOD.replace(b'{"mediaType":', b'{"mediaType":"","mediaType":'),
        b"[" * 100_000,
        GOOD + b" " * SIGNATURE_BYTES_MAX,
    ],
    ids=["empty", "bytes", "list", "null", "cut", "more", "key twice", "deep", "large"],
)
def test_what_is_no_such_json_is_refused(data: bytes) -> None:
    assert refusal(data) == "AOTC-E351"


def test_a_signature_may_be_as_large_as_the_limit() -> None:
    assert verified_files(GOOD.ljust(SIGNATURE_BYTES_MAX), KEY, "model.sig")


def test_another_key_is_refused() -> None:
    other = LocalSigner.ephemeral(KeyType.ECDSA_P256)
    assert refusal(GOOD, load_public_key(other.public_pem(), "", "k")) == "AOTC-E352"
    ed25519 = load_public_key(LocalSigner.ephemeral().public_pem(), "", "k")
    assert refusal(GOOD, ed25519) == "AOTC-E352"


def test_a_p384_signature_is_not_taken_for_one_of_this_key() -> None:
    p384 = LocalSigner(ec.generate_private_key(ec.SECP384R1()))
    assert refusal(signed(b"{}", signer=p384)) == "AOTC-E352"


def test_the_hint_of_a_key_makes_no_signature_good() -> None:
    other = LocalSigner.ephemeral(KeyType.ECDSA_P256)
    forged = json.loads(model_signature({**FILES, "more": sha256(b"x")}, "d", other))
    forged["verificationMaterial"] = json.loads(GOOD)["verificationMaterial"]
    assert refusal(json.dumps(forged).encode()) == "AOTC-E352"


@pytest.mark.parametrize("name", ["payload", "payloadType"])
def test_what_was_changed_after_signing_is_refused(name: str) -> None:
    document = json.loads(GOOD)
    envelope = document["dsseEnvelope"]
    if name == "payload":
        payload = base64.b64decode(envelope["payload"]).replace(b"index.json", b"index.jsom")
        envelope["payload"] = base64.b64encode(payload).decode()
    else:
        envelope["payloadType"] += "x"
    assert refusal(json.dumps(document).encode()) == "AOTC-E352"


def test_the_faulty_encoding_of_model_signing_0_2_is_not_accepted() -> None:
    """Its package still does: a str of bytes, signed under "DSSEV1"."""
    payload = base64.b64decode(json.loads(GOOD)["dsseEnvelope"]["payload"])
    faulty = f"DSSEV1 {len(in_toto.PAYLOAD_TYPE)} {in_toto.PAYLOAD_TYPE} {len(payload)} {payload!r}"
    document = json.loads(GOOD)
    signature = base64.b64encode(SIGNER.sign(faulty.encode())).decode()
    document["dsseEnvelope"]["signatures"] = [{"sig": signature, "keyid": ""}]
    assert refusal(json.dumps(document).encode()) == "AOTC-E352"


def test_a_signed_payload_of_another_type_is_refused() -> None:
    payload = base64.b64decode(json.loads(GOOD)["dsseEnvelope"]["payload"])
    assert refusal(signed(payload, "application/json")) == "AOTC-E353"


RESOURCES = payload_of(GOOD)["predicate"]["resources"]
SUBJECT = payload_of(GOOD)["subject"]


@pytest.mark.parametrize(
    "change",
    [
        setting("_type", "https://in-toto.io/Statement/v0.1"),
        setting("predicateType", "https://slsa.dev/provenance/v1"),
        setting("predicateType", "https://model_signing/Digests/v0.1"),
        setting("predicate.serialization.method", "shards"),
        setting("predicate.serialization.hash_type", "blake3"),
        setting("predicate.resources", [{**RESOURCES[0], "algorithm": "md5"}, *RESOURCES[1:]]),
        setting("predicate.resources", RESOURCES[1:]),
        setting("predicate.resources", list(reversed(RESOURCES))),
        setting("predicate.resources", [{**RESOURCES[0], "digest": "xyz"}, *RESOURCES[1:]]),
        setting("predicate.resources", []),
        setting("subject", []),
        setting("subject", SUBJECT * 2),
        setting("subject", [{"name": "digits", "digest": {"sha256": "0" * 64}}]),
        without("predicate"),
        without("predicate.resources"),
        without("subject"),
        without("_type"),
    ],
)
def test_a_signed_statement_about_something_else_or_that_contradicts_itself_is_refused(
    change: Callable[[Document], None],
) -> None:
    statement = payload_of(GOOD)
    change(statement)
    assert refusal(signed(json.dumps(statement).encode())) == "AOTC-E353"


def test_a_file_that_is_listed_twice_is_refused() -> None:
    """Readers differ in which of the two they take."""
    statement = payload_of(GOOD)
    resources = [{**RESOURCES[0], "digest": "00" * 32}, *RESOURCES]
    statement["predicate"]["resources"] = resources
    root = sha256(b"".join(bytes.fromhex(resource["digest"]) for resource in resources))
    statement["subject"][0]["digest"]["sha256"] = root.removeprefix("sha256:")
    assert refusal(signed(json.dumps(statement).encode())) == "AOTC-E353"


@given(
    st.one_of(
        st.binary(),
        st.builds(
            lambda start, length, new: GOOD[:start] + new + GOOD[start + length :],
            st.integers(0, len(GOOD)),
            st.integers(0, 50),
            st.binary(min_size=1, max_size=50),
        ),
    )
)
def test_no_other_bytes_vouch_for_other_files(data: bytes) -> None:
    try:
        files = verified_files(data, KEY, "model.sig")
    except TrustError:
        return
    assert files == FILES, "only what nobody signs was changed: the hint, white space"


@given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_no_signed_payload_of_random_bytes_is_a_list_of_files(payload: bytes) -> None:
    assert refusal(signed(payload)) == "AOTC-E353"


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_signed_payload_that_is_no_statement_is_refused(payload: bytes) -> None:
    assert refusal(signed(payload)) == "AOTC-E353"


@pytest.mark.parametrize(
    ("found", "where"),
    [
        ({**FILES, "index.json": sha256(b"another")}, "b index.json"),
        ({k: v for k, v in FILES.items() if k != "oci-layout"}, "b oci-layout"),
        ({**FILES, "more": sha256(b"")}, "b more"),
    ],
    ids=["changed", "missing", "extra"],
)
def test_each_file_that_differs_is_named(found: dict[str, str], where: str) -> None:
    (finding,) = differences(FILES, found, "b")
    assert (finding.code, finding.where) == ("AOTC-E354", where)


def test_as_many_files_as_are_named_are_all_that_differ() -> None:
    found = {f"blobs/sha256/{number}": sha256(b"") for number in range(FILES_NAMED_MAX)}
    assert len(list(differences({}, found, "b"))) == FILES_NAMED_MAX


def test_a_bundle_of_other_files_is_refused_in_bounded_words() -> None:
    found = {f"blobs/sha256/{number}": sha256(b"") for number in range(1000)}
    findings = list(differences({}, found, "b"))
    assert len(findings) == FILES_NAMED_MAX + 1
    assert {finding.code for finding in findings} == {"AOTC-E354"}
    assert findings[-1].found == f"{1000 - FILES_NAMED_MAX} more files differ"
