"""Attacks on signatures and policies, and the code that refuses each."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base import limits
from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy
from aotc_runtime.verification import (
    missing_signatures,
    parsed_keys,
    policy_reader,
    public_keys,
    root_signatures,
)

from .refused_attacks import Arms, Refused, codes_in, outcome
from .tampering import (
    ACCEPTED,
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


def unsigned(arms: Arms) -> str:
    return code_of(signed(arms.documents), arms.policy, arms.host)


def payload(arms: Arms) -> bytes:
    return to_json(statement_about(root_digest(arms.documents)))


def enveloped(arms: Arms, *envelopes: bytes, **policy: Any) -> str:
    arms.documents.envelopes = list(envelopes)
    return code_of(put_together(arms.documents), policy_for(arms.ours, **policy), arms.host)


def signed_by_a_stranger(arms: Arms) -> str:
    return enveloped(arms, signed_envelope(payload(arms), arms.stranger))


def claiming_a_trusted_key(arms: Arms) -> str:
    return enveloped(arms, signed_envelope(payload(arms), arms.stranger, keyid=arms.ours.key_id))


def one_key_twice(arms: Arms) -> str:
    bundle = signed(arms.documents, arms.ours, arms.ours)
    return code_of(bundle, policy_for(arms.ours, arms.stranger, threshold=2), arms.host)


def one_key_listed_twice(arms: Arms) -> str:
    bundle = signed(arms.documents, arms.ours)
    return code_of(bundle, policy_for(arms.ours, arms.ours), arms.host)


def more_keys_than_there_are(arms: Arms) -> str:
    bundle = signed(arms.documents, arms.ours)
    return code_of(bundle, policy_for(arms.ours, arms.ours, threshold=2), arms.host)


def countless_signatures(arms: Arms) -> str:
    pair = (arms.ours.key_id, arms.ours.sign(authenticated(payload(arms))))
    more = [(str(n), n.to_bytes(64)) for n in range(limits.SIGNATURES_MAX)]
    return enveloped(arms, envelope(payload(arms), pair, *more))


def a_signature_twice(arms: Arms) -> str:
    pair = (arms.ours.key_id, arms.ours.sign(authenticated(payload(arms))))
    return enveloped(arms, envelope(payload(arms), pair, ("another", pair[1])))


def more_to_try_than_there_is_time(arms: Arms) -> str:
    """Signatures of no key of the policy, which are tried with all of them."""
    others = [LocalSigner.ephemeral() for _ in range(9)]
    envelopes = [
        envelope(b"x" * n, *[("", (64 * n + m).to_bytes(64)) for m in range(64)]) for n in range(4)
    ]
    arms.documents.envelopes = [*envelopes, signed_envelope(payload(arms), arms.ours)]
    return code_of(put_together(arms.documents), policy_for(arms.ours, *others), arms.host)


def the_old_signature(arms: Arms) -> str:
    arms.documents.manifest["version"] = "9.9.9"
    return code_of(put_together(arms.documents), arms.policy, arms.host)


def a_test_report(arms: Arms) -> str:
    statement = {**statement_about(root_digest(arms.documents)), "predicateType": "report"}
    return enveloped(arms, signed_envelope(to_json(statement), arms.ours))


def another_payload_type(arms: Arms) -> str:
    return enveloped(arms, signed_envelope(payload(arms), arms.ours, payload_type="text/plain"))


def another_curve(arms: Arms) -> str:
    signer = LocalSigner(ec.generate_private_key(ec.SECP384R1()))
    return code_of(signed(arms.documents, signer), policy_for(signer), arms.host)


def a_key_for_something_else(arms: Arms) -> str:
    """X25519: as long as an Ed25519 key, and made for key exchange."""
    pem = (
        x25519.X25519PrivateKey.generate()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )
    policy = TrustPolicy(schema=1, name="*", keys=(TrustedKey(public_key=pem),))
    return code_of(signed(arms.documents, arms.ours), policy, arms.host)


def spelled(point: str) -> str:
    """PEM of the key with these 32 bytes."""
    der = base64.b64encode(bytes.fromhex("302a300506032b6570032100" + point)).decode()
    return f"-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n"


NEUTRAL = "01" + "00" * 31
"""The neutral element: R is the same, S is 0, and every message is signed."""


def nobodys_key(arms: Arms) -> str:
    forged = envelope(payload(arms), ("", bytes.fromhex(NEUTRAL) + bytes(32)))
    arms.documents.envelopes = [forged]
    policy = TrustPolicy(schema=1, name="*", keys=(TrustedKey(public_key=spelled(NEUTRAL)),))
    return code_of(put_together(arms.documents), policy, arms.host)


def a_key_after_another(arms: Arms) -> str:
    both = arms.stranger.public_pem() + arms.ours.public_pem()
    policy = TrustPolicy(schema=1, name="*", keys=(TrustedKey(public_key=both),))
    return code_of(signed(arms.documents, arms.stranger), policy, arms.host)


def no_key_in_the_block(arms: Arms) -> str:
    pem = spelled("")
    policy = TrustPolicy(schema=1, name="*", keys=(TrustedKey(public_key=pem),))
    return code_of(signed(arms.documents, arms.ours), policy, arms.host)


def no_key_at_all(arms: Arms) -> str:
    policy = TrustPolicy(schema=1, name="*", keys=(TrustedKey(public_key="no key"),))
    return code_of(signed(arms.documents, arms.ours), policy, arms.host)


def with_policy(**change: Any) -> Any:
    def attack(arms: Arms) -> str:
        return code_of(
            signed(arms.documents, arms.ours), policy_for(arms.ours, **change), arms.host
        )

    return attack


def policy_file(text: str) -> Any:
    def attack(arms: Arms) -> None:
        path = arms.folder / "trust.toml"
        (arms.folder / "ci.pub").write_text("-----BEGIN PUBLIC KEY-----")
        path.write_text(text)
        policy_reader.read_policy(path)

    return attack


HEAD = 'schema = 1\nname = "x"\n[[keys]]\n'
KEY = f"""{HEAD}public_key = '''
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----'''
"""
BOTH = KEY + 'public_key_file = "ci.pub"\n'
LONG = KEY + "#" + "x" * limits.POLICY_BYTES_MAX
GONE = HEAD + 'public_key_file = "gone.pub"\n'
NO_KEY = HEAD + 'public_key = "x"\n'

COUNTED = "signatures.vouchers_for(envelopes, root, framed.policy, where, now)"
ENOUGH = "len({keys[id].holder for id in found}) < policy.threshold"
MOST = "policy.threshold > (most := len({key.holder for key in distinct.values()}))"
NOBODY = "not seen.found and not seen.idle and not seen.silent"
NUMBER = "1 <= count <= limits.SIGNATURES_MAX"
UNASKED = "decode_foreign(signed.payload, Statement, where=signed.where)"

TRUST = [
    Refused(unsigned, "AOTC-E301"),
    Refused(with_policy(name="other"), "AOTC-E306"),
    Refused(policy_file(BOTH), "AOTC-E309"),
    Refused(policy_file(GONE), "AOTC-E308"),
    Refused(policy_file(NO_KEY), "AOTC-E310"),
    Refused(policy_file(LONG), "AOTC-E309"),
    Refused(with_policy(minimum_version="newest"), "AOTC-E309"),
    Refused(with_policy(threshold=0), "AOTC-E309"),
    Refused(no_key_at_all, "AOTC-E310"),
    Refused(more_keys_than_there_are, "AOTC-E309"),
    Refused(one_key_listed_twice, ACCEPTED),
    Refused(another_curve, "AOTC-E310"),
    Refused(no_key_in_the_block, "AOTC-E310"),
    Refused(nobodys_key, "AOTC-E310"),
    Refused(a_key_after_another, "AOTC-E310"),
    Refused(a_key_for_something_else, "AOTC-E310"),
    Refused(signed_by_a_stranger, "AOTC-E302"),
    Refused(claiming_a_trusted_key, "AOTC-E303"),
    Refused(countless_signatures, "AOTC-E119"),
    Refused(a_signature_twice, "AOTC-E119"),
    Refused(more_to_try_than_there_is_time, "AOTC-E119"),
    Refused(one_key_twice, "AOTC-E304"),
    Refused(the_old_signature, "AOTC-E305"),
    Refused(another_payload_type, "AOTC-E305"),
    Refused(a_test_report, "AOTC-E305"),
    Refused(with_policy(minimum_version="2.0"), "AOTC-E307"),
]


@pytest.mark.parametrize("case", TRUST, ids=[case.label for case in TRUST])
def test_an_attack_is_refused(case: Refused, arms: Arms) -> None:
    assert outcome(case.attack, arms) == case.code


def test_every_code_of_trust_has_its_check_here() -> None:
    of_windows = {"AOTC-E311", "AOTC-E312"}  # test_policy_attacks.py
    assert codes_in(
        public_keys, parsed_keys, root_signatures, policy_reader, missing_signatures
    ) - of_windows <= {case.code for case in TRUST}
