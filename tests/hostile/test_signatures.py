"""Signatures that are missing, somebody else's, about something else, or too few."""

from __future__ import annotations

import time

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.sign.signing_keys import KeyType
from aotc_runtime.base import limits
from aotc_runtime.base.errors import TrustError
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy
from aotc_runtime.verification.bundle_examination import examine
from aotc_runtime.verification.policy_reader import policy_keys

from .tampering import (
    ACCEPTED,
    Documents,
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
    assert examine(bundle, policy_for(ours), host, time.time()).signers == (ours.key_id,)


def test_two_signatures_by_one_key_do_not_meet_a_threshold_of_two(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    policy = policy_for(ours, stranger, threshold=2)
    assert code_of(signed(documents, ours, ours), policy, host) == "AOTC-E304"
    payload = payload_for(documents)
    message = authenticated(payload)
    ecdsa = LocalSigner.ephemeral(KeyType.ECDSA_P256)
    assert isinstance(ecdsa.key, ec.EllipticCurvePrivateKey)
    anew = [ecdsa.key.sign(message, ec.ECDSA(hashes.SHA256())) for _ in range(2)]
    in_one = envelope(payload, *[(ecdsa.key_id, signature) for signature in anew])
    documents.envelopes = [in_one]
    policy = policy_for(ecdsa, stranger, threshold=2)
    assert code_of(put_together(documents), policy, host) == "AOTC-E304"
    mixed = signed_envelope(payload_for(documents), ecdsa, keyid="another")
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


@pytest.mark.parametrize("which", ["after another", "empty"])
def test_what_is_not_one_key_is_none(
    which: str, documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    block = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n"
    both = stranger.public_pem() + ours.public_pem()
    pem = both if which == "after another" else block
    policy = TrustPolicy(schema=1, name="*", keys=(TrustedKey(public_key=pem),))
    assert code_of(signed(documents, stranger), policy, host) == "AOTC-E310"


def test_p256_signatures_count(documents: Documents, host: HostFacts) -> None:
    signer = LocalSigner(ec.generate_private_key(ec.SECP256R1()))
    bundle = signed(documents, signer)
    assert code_of(bundle, policy_for(signer), host) == ACCEPTED
    other = LocalSigner(ec.generate_private_key(ec.SECP256R1()))
    assert code_of(bundle, policy_for(other), host) == "AOTC-E302"


def test_a_statement_about_two_bundles_vouches_for_neither(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    statement = statement_about(root_digest(documents))
    statement["subject"].append({"name": "other", "digest": {"sha256": "0" * 64}})
    documents.envelopes = [signed_envelope(to_json(statement), ours)]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E305"


@pytest.mark.parametrize("signature", [b"", b"\0" * 64, b"\0" * 10_000, b"x"])
def test_a_signature_of_any_length_is_refused_not_crashed_on(
    signature: bytes, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    p256 = LocalSigner(ec.generate_private_key(ec.SECP256R1()))
    payload = payload_for(documents)
    for keyid, code in (("", "AOTC-E302"), (ours.key_id, "AOTC-E303"), (p256.key_id, "AOTC-E303")):
        documents.envelopes = [envelope(payload, (keyid, signature))]
        assert code_of(put_together(documents), policy_for(ours, p256), host) == code


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
    verdict = examine(signed(documents, stranger), policy, host, time.time())
    assert verdict.choice is None and verdict.manifest is None and verdict.signers == ()
    assert verdict.gates == ("framing", "attestations")
