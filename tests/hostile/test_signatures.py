"""Signatures that are missing, somebody else's, about something else, or too few."""

import time

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from aotc.bundle.sign.signer import KeyType, LocalSigner
from aotc_runtime.base import limits
from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy
from aotc_runtime.verification.bundle_examination import examine

from .provenances import key_of
from .tampering import (
    authenticated,
    envelope,
    policy_for,
    put_together,
    root_digest,
    signed_envelope,
    statement_about,
    to_json,
)
from .workbench import Workbench


def payload_of(bench: Workbench) -> bytes:
    return to_json(statement_about(root_digest(bench.documents)))


def codes_of(bench: Workbench, policy: TrustPolicy, *envelopes: bytes) -> list[str]:
    """The codes of the findings for the bundle with these envelopes."""
    bench.documents.envelopes = list(envelopes)
    return bench.codes(put_together(bench.documents), policy)


@pytest.mark.parametrize("keyid", ["", "0" * 64, "ci", "x" * 1000])
def test_the_key_id_is_a_hint_and_excludes_nobody(keyid: str, bench: Workbench) -> None:
    made = signed_envelope(payload_of(bench), bench.ours, keyid=keyid)
    assert codes_of(bench, bench.policy(), made) == []


def test_untrusted_signature_beside_a_trusted_one_does_not_count(bench: Workbench) -> None:
    bundle = bench.signed(bench.stranger, bench.ours)
    verdict = examine(bundle, bench.policy(), bench.host, time.time())
    assert verdict.signers == (bench.ours.key_id,)


def test_two_signatures_by_one_key_do_not_meet_a_threshold_of_two(bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    policy = policy_for(ours, stranger, threshold=2)
    assert bench.codes(bench.signed(ours, ours), policy) == ["AOTC-E304"]
    payload = payload_of(bench)
    ecdsa = LocalSigner.ephemeral(KeyType.ECDSA_P256)
    assert isinstance(ecdsa.key, ec.EllipticCurvePrivateKey)
    message = authenticated(payload)
    anew = [ecdsa.key.sign(message, ec.ECDSA(hashes.SHA256())) for _ in range(2)]
    in_one = envelope(payload, *[(ecdsa.key_id, signature) for signature in anew])
    policy = policy_for(ecdsa, stranger, threshold=2)
    assert codes_of(bench, policy, in_one) == ["AOTC-E304"]
    mixed = signed_envelope(payload, ecdsa, keyid="another")
    assert codes_of(bench, policy, in_one, mixed) == ["AOTC-E304"]


def test_two_keys_meet_a_threshold_of_two_in_one_envelope_or_in_two(bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    policy = policy_for(ours, stranger, threshold=2)
    assert bench.codes(bench.signed(ours, stranger), policy) == []
    assert codes_of(bench, policy, signed_envelope(payload_of(bench), ours, stranger)) == []


def test_one_key_twice_in_the_policy_is_one_key(bench: Workbench) -> None:
    ours = bench.ours
    assert bench.codes(bench.signed(), policy_for(ours, ours)) == []
    again = key_of(ours).public_key.replace("\n", "\r\n")
    for second in (key_of(ours), TrustedKey(public_key=again)):
        twice = bench.policy(key_of(ours), second, threshold=2)
        assert bench.codes(bench.signed(ours, ours), twice) == ["AOTC-E309"]


@pytest.mark.parametrize("which", ["after another", "empty"])
def test_what_is_not_one_key_is_none(which: str, bench: Workbench) -> None:
    block = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n"
    both = bench.stranger.public_pem() + bench.ours.public_pem()
    policy = bench.policy(TrustedKey(public_key=both if which == "after another" else block))
    assert bench.codes(bench.signed(bench.stranger), policy) == ["AOTC-E310"]


def test_p256_signatures_count(bench: Workbench) -> None:
    signer, other = (LocalSigner.ephemeral(KeyType.ECDSA_P256) for _ in range(2))
    assert bench.codes(bench.signed(signer), policy_for(signer)) == []
    assert bench.codes(bench.signed(signer), policy_for(other)) == ["AOTC-E302"]


def test_a_statement_about_two_bundles_vouches_for_neither(bench: Workbench) -> None:
    statement = statement_about(root_digest(bench.documents))
    statement["subject"].append({"name": "other", "digest": {"sha256": "0" * 64}})
    made = signed_envelope(to_json(statement), bench.ours)
    assert codes_of(bench, bench.policy(), made) == ["AOTC-E305"]


@pytest.mark.parametrize("signature", [b"", b"\0" * 64, b"\0" * 10_000, b"x"])
def test_signature_of_any_length_is_refused(signature: bytes, bench: Workbench) -> None:
    ours, p256 = bench.ours, LocalSigner.ephemeral(KeyType.ECDSA_P256)
    payload, policy = payload_of(bench), policy_for(ours, p256)
    for keyid, code in (("", "AOTC-E302"), (ours.key_id, "AOTC-E303"), (p256.key_id, "AOTC-E303")):
        assert codes_of(bench, policy, envelope(payload, (keyid, signature))) == [code]


def test_surplus_attestations_refused(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ATTESTATIONS_MAX", 1)
    assert bench.codes(bench.signed(), bench.policy()) == []
    assert bench.codes(bench.signed(bench.ours, bench.ours), bench.policy()) == ["AOTC-E111"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, []) for name in ("digits", "dig*", "*")),
        *((name, ["AOTC-E306"]) for name in ("digit", "Digits", "vision", "digits-*")),
    ],
)
def test_policy_for_other_name_refuses(name: str, expected: list[str], bench: Workbench) -> None:
    assert bench.codes(bench.signed(), bench.policy(name=name)) == expected


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        *((minimum, []) for minimum in ("1.0.0", "1.0", "1.0.0-rc1")),
        *((minimum, ["AOTC-E307"]) for minimum in ("1.0.1", "1.0.0.post1", "2")),
        ("latest", ["AOTC-E309"]),
    ],
)
def test_minimum_version_refuses(minimum: str, expected: list[str], bench: Workbench) -> None:
    assert bench.codes(bench.signed(), bench.policy(minimum_version=minimum)) == expected


def test_a_signed_version_that_is_no_version_does_not_pass_a_minimum(bench: Workbench) -> None:
    bench.documents.manifest["version"] = "newest"
    bundle = bench.signed()
    assert bench.codes(bundle, bench.policy()) == []
    assert bench.codes(bundle, bench.policy(minimum_version="0.1")) == ["AOTC-E307"]


def test_nothing_of_an_untrusted_bundle_is_reported_as_its_content(bench: Workbench) -> None:
    bundle = bench.signed(bench.stranger)
    verdict = examine(bundle, bench.policy(), bench.host, time.time())
    assert verdict.choice is None and verdict.manifest is None and verdict.signers == ()
    assert verdict.gates == ("framing", "attestations")
