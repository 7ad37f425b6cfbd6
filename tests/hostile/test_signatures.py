"""Signatures that are missing, somebody else's, about something else, or too few."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from aotc.signing.signer import LocalSigner
from aotc_runtime import limits
from aotc_runtime.errors import TrustError
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.policy import TrustedKey, TrustPolicy
from aotc_runtime.verification.trust import policy_keys
from aotc_runtime.verification.verify import examine

from .tampering import (
    ACCEPTED,
    Documents,
    MemoryBundle,
    authenticated,
    code_of,
    envelope,
    policy_for,
    put_together,
    root_digest,
    signed,
    signed_envelope,
    statement_about,
    to_json,
)


def payload_for(documents: Documents) -> bytes:
    return to_json(statement_about(root_digest(documents)))


def test_an_unsigned_bundle_is_refused(
    documents: Documents, policy: TrustPolicy, host: HostFacts
) -> None:
    assert code_of(signed(documents), policy, host) == "AOTC-E301"


def test_a_bundle_signed_by_another_key_is_refused(
    documents: Documents, stranger: LocalSigner, policy: TrustPolicy, host: HostFacts
) -> None:
    assert code_of(signed(documents, stranger), policy, host) == "AOTC-E302"


def test_an_attacker_who_claims_the_trusted_key_id_is_refused(
    documents: Documents, stranger: LocalSigner, ours: LocalSigner, host: HostFacts
) -> None:
    forged = signed_envelope(payload_for(documents), stranger, keyid=ours.key_id)
    documents.envelopes = [forged]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E303"


@pytest.mark.parametrize("keyid", ["", "0" * 64, "ci", "x" * 1000])
def test_the_key_id_is_a_hint_and_excludes_nobody(
    keyid: str, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    documents.envelopes = [signed_envelope(payload_for(documents), ours, keyid=keyid)]
    assert code_of(put_together(documents), policy_for(ours), host) == ACCEPTED


def test_a_strangers_signature_beside_a_trusted_one_does_no_harm_and_does_not_count(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    bundle = signed(documents, stranger, ours)
    assert examine(bundle, policy_for(ours), host).signers == (ours.key_id,)


def test_a_signature_of_another_bundle_is_refused(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    genuine_signature = signed_envelope(payload_for(documents), ours)
    documents.manifest["version"] = "1.0.1"
    documents.envelopes = [genuine_signature]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E305"


def test_modified_contents_with_right_digests_and_the_old_signature_are_refused(
    documents: Documents, policy: TrustPolicy, host: HostFacts
) -> None:
    documents.manifest["requires"]["isa"] = []
    assert code_of(put_together(documents), policy, host) == "AOTC-E305"


def test_an_attestation_about_another_root_is_refused(
    genuine: MemoryBundle, documents: Documents, policy: TrustPolicy, host: HostFacts
) -> None:
    """The image manifest around the envelope names its subject, too."""
    old = genuine.files["index.json"]
    documents.manifest["version"] = "1.0.1"
    other = put_together(documents)
    index = json.loads(other.files["index.json"])
    index["manifests"] = [index["manifests"][0], json.loads(old)["manifests"][1]]
    mixed = MemoryBundle(
        {**other.files, "index.json": to_json(index)}, {**genuine.blobs, **other.blobs}
    )
    assert code_of(mixed, policy, host) == "AOTC-E114"


def test_two_signatures_by_one_key_do_not_meet_a_threshold_of_two(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    policy = policy_for(ours, stranger, threshold=2)
    assert code_of(signed(documents, ours, ours), policy, host) == "AOTC-E304"
    in_one = signed_envelope(payload_for(documents), ours, ours)
    documents.envelopes = [in_one]
    assert code_of(put_together(documents), policy, host) == "AOTC-E304"
    mixed = signed_envelope(payload_for(documents), ours, keyid="another")
    documents.envelopes = [in_one, mixed]
    assert code_of(put_together(documents), policy, host) == "AOTC-E304"


def test_two_keys_meet_a_threshold_of_two_in_one_envelope_or_in_two(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    policy = policy_for(ours, stranger, threshold=2)
    assert code_of(signed(documents, ours, stranger), policy, host) == ACCEPTED
    documents.envelopes = [signed_envelope(payload_for(documents), ours, stranger)]
    assert code_of(put_together(documents), policy, host) == ACCEPTED


def test_one_key_twice_in_the_policy_is_one_key(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    assert code_of(signed(documents, ours), policy_for(ours, ours), host) == ACCEPTED
    with pytest.raises(TrustError) as refused:
        policy_keys(policy_for(ours, ours, threshold=2))
    assert refused.value.code == "AOTC-E309"
    spelled_again = TrustedKey(public_key=ours.public_pem().replace("\n", "\r\n"))
    twice = TrustPolicy(
        schema=1, name="*", keys=(*policy_for(ours).keys, spelled_again), threshold=2
    )
    assert code_of(signed(documents, ours, ours), twice, host) == "AOTC-E309"


def test_p256_signatures_count(documents: Documents, host: HostFacts) -> None:
    signer = LocalSigner(ec.generate_private_key(ec.SECP256R1()))
    bundle = signed(documents, signer)
    assert code_of(bundle, policy_for(signer), host) == ACCEPTED
    other = LocalSigner(ec.generate_private_key(ec.SECP256R1()))
    assert code_of(bundle, policy_for(other), host) == "AOTC-E302"


@pytest.mark.parametrize(
    "statement",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"predicateType": "https://in-toto.io/attestation/test-result/v0.1"},
        {"subject": []},
        {"subject": [{"name": "x", "digest": {"sha256": "0" * 64}}]},
        {"subject": [{"name": "x", "digest": {"sha512": "0" * 128}}]},
        {"subject": [{"name": "x", "digest": {}}]},
    ],
    ids=["type", "predicate", "no subject", "other subject", "other algorithm", "no digest"],
)
def test_a_trusted_signature_on_another_statement_vouches_for_nothing(
    statement: dict[str, object], documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    payload = to_json({**statement_about(root_digest(documents)), **statement})
    documents.envelopes = [signed_envelope(payload, ours)]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E305"


def test_a_statement_about_two_bundles_vouches_for_neither(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    statement = statement_about(root_digest(documents))
    statement["subject"].append({"name": "other", "digest": {"sha256": "0" * 64}})
    documents.envelopes = [signed_envelope(to_json(statement), ours)]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E305"


def test_a_payload_signed_as_another_type_is_refused(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    payload = payload_for(documents)
    documents.envelopes = [signed_envelope(payload, ours, payload_type="text/plain")]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E305"


def test_the_payload_type_is_signed(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    """A signature over one type does not count for another."""
    payload = payload_for(documents)
    signature = ours.sign(authenticated(payload, "text/plain"))
    documents.envelopes = [envelope(payload, (ours.key_id, signature))]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E303"


def test_a_signature_over_the_bare_payload_is_refused(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    payload = payload_for(documents)
    documents.envelopes = [envelope(payload, (ours.key_id, ours.sign(payload)))]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E303"


@pytest.mark.parametrize("signature", [b"", b"\0" * 64, b"\0" * 10_000, b"x"])
def test_a_signature_of_any_length_is_refused_not_crashed_on(
    signature: bytes, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    p256 = LocalSigner(ec.generate_private_key(ec.SECP256R1()))
    payload = payload_for(documents)
    for keyid, code in (("", "AOTC-E302"), (ours.key_id, "AOTC-E303"), (p256.key_id, "AOTC-E303")):
        documents.envelopes = [envelope(payload, (keyid, signature))]
        assert code_of(put_together(documents), policy_for(ours, p256), host) == code


@pytest.mark.parametrize("number", [0, limits.SIGNATURES_MAX + 1])
def test_an_envelope_with_no_or_too_many_signatures_is_refused(
    number: int, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    payload = payload_for(documents)
    good = (ours.key_id, ours.sign(authenticated(payload)))
    documents.envelopes = [envelope(payload, *[good] * number)]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E119"


def test_more_attestations_than_the_limit_are_refused(
    documents: Documents,
    ours: LocalSigner,
    host: HostFacts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "ATTESTATIONS_MAX", 1)
    assert code_of(signed(documents, ours), policy_for(ours), host) == ACCEPTED
    assert code_of(signed(documents, ours, ours), policy_for(ours), host) == "AOTC-E111"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("digits", ACCEPTED),
        ("dig*", ACCEPTED),
        ("*", ACCEPTED),
        ("digit", "AOTC-E306"),
        ("Digits", "AOTC-E306"),
        ("vision", "AOTC-E306"),
        ("digits-*", "AOTC-E306"),
    ],
)
def test_a_policy_for_another_name_refuses(
    name: str, expected: str, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    assert code_of(signed(documents, ours), policy_for(ours, name=name), host) == expected


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        ("1.0.0", ACCEPTED),
        ("1.0", ACCEPTED),
        ("1.0.0-rc1", ACCEPTED),
        ("1.0.1", "AOTC-E307"),
        ("1.0.0.post1", "AOTC-E307"),
        ("2", "AOTC-E307"),
        ("latest", "AOTC-E309"),
    ],
)
def test_a_policy_with_a_minimum_version_refuses_a_rollback(
    minimum: str, expected: str, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    policy = policy_for(ours, minimum_version=minimum)
    assert code_of(signed(documents, ours), policy, host) == expected


def test_a_signed_version_that_is_no_version_does_not_pass_a_minimum(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    documents.manifest["version"] = "newest"
    bundle = signed(documents, ours)
    assert code_of(bundle, policy_for(ours), host) == ACCEPTED
    assert code_of(bundle, policy_for(ours, minimum_version="0.1"), host) == "AOTC-E307"


def test_nothing_of_an_untrusted_bundle_is_reported_as_its_content(
    documents: Documents, stranger: LocalSigner, policy: TrustPolicy, host: HostFacts
) -> None:
    verdict = examine(signed(documents, stranger), policy, host)
    assert verdict.bundle is None and verdict.manifest is None and verdict.signers == ()
    assert verdict.gates == ("framing", "attestations")
