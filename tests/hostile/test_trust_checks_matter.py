"""Every check of signatures and policies, removed: the attack it stops gets further."""

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
    policy_rules,
    public_keys,
    root_signatures,
    verify_bundle,
)

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
from .weakening import Arms, Check, codes_in, shows_that_it_matters


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
STATED = "_statement(signed, root_digest)"
UNASKED = "decode_foreign(signed.payload, Statement, where=signed.where)"

TRUST = [
    Check(verify_bundle.authenticate, (COUNTED, "()"), unsigned, "AOTC-E301"),
    Check(verify_bundle.accept, ("check_policy(unpacked.signed, unpacked._contents)", "()"),
          with_policy(name="other"), "AOTC-E306"),
    Check(policy_reader.parse_policy, ("list(_check_fields(policy, where, text))", "[]"), policy_file(BOTH),
          "AOTC-E309"),
    Check(policy_reader.parse_policy, ("raise_if(findings)", "pass"), policy_file(BOTH), "AOTC-E309"),
    Check(policy_reader.parse_policy, ("if key.public_key_file", "if False"), policy_file(GONE),
          "AOTC-E308", "AOTC-E310"),
    Check(policy_reader.parse_policy, ("_keys_of(policy, where, text)", "pass"), policy_file(NO_KEY),
          "AOTC-E310"),
    Check(policy_reader.read_text, ("len(data) > limits.POLICY_BYTES_MAX", "False"), policy_file(LONG),
          "AOTC-E309"),
    Check(policy_reader._check_fields, ("bool(key.public_key) == bool(key.public_key_file)", "False"),
          policy_file(BOTH), "AOTC-E309"),
    Check(policy_reader._check_fields, ("version_key(policy.minimum_version) is None", "False"),
          with_policy(minimum_version="newest"), "AOTC-E309", "AOTC-E307"),
    Check(policy_reader.policy_keys, ("raise_if(_check_fields(policy, where))", "pass"),
          with_policy(minimum_version="newest"), "AOTC-E309", "AOTC-E307"),
    Check(policy_reader.policy_keys, ("_typed(document, where)", "pass"), with_policy(threshold=0),
          "AOTC-E309"),
    Check(policy_reader._keys_of, ("raise_if(findings)", "pass"), no_key_at_all, "AOTC-E310",
          "AOTC-E309"),
    Check(policy_reader._keys_of, (MOST, "False"),
          more_keys_than_there_are, "AOTC-E309", "AOTC-E304"),
    Check(policy_reader._distinct, ("setdefault(key.id, key)", "setdefault(str(index), key)"),
          one_key_listed_twice, ACCEPTED, "KeyError"),
    Check(parsed_keys.parsed_key, ("isinstance(key.curve, ec.SECP256R1)", "True"), another_curve,
          "AOTC-E310"),
    Check(parsed_keys.parsed_key, ("(ValueError, UnsupportedAlgorithm)", "()"), no_key_in_the_block,
          "AOTC-E310", "ValueError"),
    Check(public_keys.ed25519_key, ("y in _SMALL_ORDER", "False"), nobodys_key, "AOTC-E310"),
    Check(public_keys.load_public_key, ("match is None", "False"), a_key_after_another, "AOTC-E310",
          "TypeError"),
    Check(public_keys.load_public_key, ("der.startswith(_ED25519_PREFIX)", "True"),
          a_key_for_something_else, "AOTC-E310", "AOTC-E302"),
    Check(public_keys.public_key_of, ("return False", "return True"), signed_by_a_stranger,
          "AOTC-E302"),
    Check(public_keys.public_key_of, ("return False", "return True"), claiming_a_trusted_key,
          "AOTC-E303"),
    Check(root_signatures.open_envelope, (NUMBER, "True"), countless_signatures, "AOTC-E119"),
    Check(root_signatures.open_envelope,
          ("len({signature.sig for signature in envelope.signatures}) != count", "False"),
          a_signature_twice, "AOTC-E119"),
    Check(root_signatures.Trials.spend, ("self._left < 0", "False"), more_to_try_than_there_is_time,
          "AOTC-E119"),
    Check(missing_signatures.reasons, ("not seen.count", "False"), unsigned, "AOTC-E301",
          "AOTC-E302"),
    Check(missing_signatures.reasons, (NOBODY, "False"), signed_by_a_stranger, "AOTC-E302",
          "AOTC-E304"),
    Check(root_signatures.vouchers_for, (ENOUGH, "False"), one_key_twice,
          "AOTC-E304"),
    Check(root_signatures.vouchers_for, (STATED, UNASKED), the_old_signature, "AOTC-E305"),
    Check(root_signatures._signers, ("named is not None and signer is not named", "False"),
          claiming_a_trusted_key, "AOTC-E303", "AOTC-E302"),
    Check(root_signatures.who_signed, ("next(made, None)", "next(iter(keys.values()))"),
          signed_by_a_stranger, "AOTC-E302"),
    Check(root_signatures._statement, ("signed.payload_type != in_toto.PAYLOAD_TYPE", "False"),
          another_payload_type, "AOTC-E305"),
    Check(root_signatures._statement, ("or not known", ""), a_test_report, "AOTC-E305", "AOTC-E304"),
    Check(root_signatures._statement, ("subjects !=", "[] and subjects !="), the_old_signature,
          "AOTC-E305"),
    Check(policy_rules.check_identity, ("not fnmatch.fnmatchcase(manifest.name, policy.name)", "False"),
          with_policy(name="other"), "AOTC-E306"),
    Check(policy_rules.check_identity, ("if policy.minimum_version:", "if False:"),
          with_policy(minimum_version="2.0"), "AOTC-E307"),
]  # fmt: skip


@pytest.mark.parametrize("check", TRUST, ids=[check.label for check in TRUST])
def test_an_attack_gets_further_exactly_when_its_check_is_removed(
    check: Check, arms: Arms, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows_that_it_matters(check, arms, monkeypatch)


def test_every_code_of_trust_has_its_check_here() -> None:
    of_windows = {"AOTC-E311", "AOTC-E312"}  # test_policy_checks_matter.py
    assert codes_in(
        public_keys, parsed_keys, root_signatures, policy_reader, missing_signatures
    ) - of_windows <= {check.code for check in TRUST}
