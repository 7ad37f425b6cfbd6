"""Every check of certificates, removed: one that must not count makes another version accepted."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.formats import in_toto
from aotc_runtime.schema.trust_policy import Revoked
from aotc_runtime.verification import certificate_rules, root_signatures, verify_bundle
from aotc_runtime.verification.bundle_examination import examine

from .certificates import (
    TWO,
    a_certificate,
    certified,
    code_of,
    runs_of,
    statement,
    trusting,
    with_another_version,
)
from .provenances import key_of
from .tampering import ACCEPTED, Documents
from .weakening import Arms, Attack, Check, codes_in, shows_that_it_matters


def changed(run: int, **change: Any) -> Any:
    """Runs in which one is another."""

    def make(documents: Documents) -> list[dict[str, Any]]:
        runs = runs_of(documents)
        runs[run] |= change
        return runs

    return make


OTHER = "sha256:" + "0" * 64


def certified_with(code: str, **change: Any) -> Attack:
    """Under a policy with the certifier, a certificate that says something else."""

    def attack(arms: Arms) -> str:
        made = {k: v(arms.documents) if callable(v) else v for k, v in change.items()}
        envelope = statement(arms.documents, arms.stranger, a_certificate(arms.documents, **made))
        return judged(arms, code, envelope)

    return attack


def stated(code: str, predicate: Any = None, **change: Any) -> Attack:
    """As `certified_with`, with another statement around it."""

    def attack(arms: Arms) -> str:
        inner = a_certificate(arms.documents) if predicate is None else predicate
        envelope = statement(arms.documents, arms.stranger, inner, **change)
        return judged(arms, code, envelope)

    return attack


def under(code: str, signer: str = "stranger", **policy: Any) -> Attack:
    """A certificate that would count, under another policy."""

    def attack(arms: Arms) -> str:
        by = arms.stranger if signer == "stranger" else LocalSigner.ephemeral()
        envelope = statement(arms.documents, by, a_certificate(arms.documents))
        return judged(arms, code, envelope, **policy)

    return attack


def windowed(code: str, **window: datetime) -> Attack:
    def attack(arms: Arms) -> str:
        envelope = statement(arms.documents, arms.stranger, a_certificate(arms.documents))
        return judged(arms, code, envelope, certifiers=(key_of(arms.stranger, **window),))

    return attack


def by_a_revoked_key(arms: Arms) -> str:
    revoked = Revoked(keys=(arms.stranger.key_id,))
    return under("AOTC-E411", revoked=revoked)(arms)


def judged(arms: Arms, code: str, envelope: bytes, **policy: Any) -> str:
    """The code if it is among the findings; accepted, if there are none."""
    host = with_another_version(arms.host, arms.documents)
    bundle = certified(arms.documents, arms.ours, envelope)
    verdict = examine(bundle, trusting(arms.ours, arms.stranger, **policy), host, time.time())
    found = [finding.code for finding in verdict.findings]
    assert not found or found[0] == code_of(arms.documents), (
        "the reason comes first, then why no certificate"
    )
    return ACCEPTED if not found else code if code in found else found[-1]


def without_certifiers(arms: Arms) -> str:
    found = under("AOTC-E412", certifiers=())(arms)
    return "refused" if found == code_of(arms.documents) else found


def without_one(documents: Documents) -> list[dict[str, Any]]:
    return runs_of(documents)[1:]


def one_twice(documents: Documents) -> list[dict[str, Any]]:
    return [*runs_of(documents), runs_of(documents)[0]]


AGO, AHEAD = datetime(1999, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
STATE = 'keys[id].state(now) == "valid"'
RUNS = "{*found} != wanted"

CHECKS = [
    Check(certificate_rules.read_statements, (STATE, "True"),
          windowed("AOTC-E411", not_after=AGO), "AOTC-E411"),
    Check(certificate_rules.read_statements, (STATE, "True"),
          windowed("AOTC-E411", not_before=AHEAD), "AOTC-E411"),
    Check(certificate_rules.read_statements, (STATE, "True"), by_a_revoked_key, "AOTC-E411"),
    Check(certificate_rules.read_statements,
          ("_, maker in who_signed(signed, keys, trials) if maker", "maker in keys.values()"),
          under("AOTC-E412", signer="nobody"), "AOTC-E412"),
    Check(root_signatures.who_signed, ("trials.verify(key, signature, message, signed.where)", "True"),
          under("AOTC-E412", signer="nobody"), "AOTC-E412"),
    Check(certificate_rules._certificate, ("signed.payload_type != in_toto.PAYLOAD_TYPE", "False"),
          lambda arms: of_another_payload(arms), "AOTC-E412"),
    Check(certificate_rules._certificate,
          ("(statement.type, statement.predicateType) != (STATEMENT_TYPE, CERTIFICATE_TYPE)",
           "False"),
          stated("AOTC-E412", predicateType="https://aotc.dev/warning/v1"), "AOTC-E412"),
    Check(certificate_rules._certificate,
          ("(statement.type, statement.predicateType) != (STATEMENT_TYPE, CERTIFICATE_TYPE)",
           "False"),
          stated("AOTC-E412", _type="https://in-toto.io/Statement/v0"), "AOTC-E412"),
    Check(certificate_rules._certificate,
          ('subjects != [{"sha256": root_digest.removeprefix("sha256:")}]', "False"),
          stated("AOTC-E412", subject=TWO), "AOTC-E412"),
    Check(certificate_rules.ruling, ("(s[0].target, s[0].release) == (target, release)",
                                "s[0].release == release"),
          certified_with("AOTC-E412", target="cpu-x86-64-v4"), "AOTC-E412"),
    Check(certificate_rules.ruling, ("(s[0].target, s[0].release) == (target, release)",
                                "s[0].target == target"),
          certified_with("AOTC-E412", version="0.11.2"), "AOTC-E412"),
    Check(certificate_rules.ruling, ("(s[0].target, s[0].release) == (target, release)",
                                "(s[0].target, s[0].release.version) == (target, release.version)"),
          certified_with("AOTC-E412", package="another"), "AOTC-E412"),
    Check(certificate_rules.ruling, ("*_check_passed(certificate, place),", ""),
          certified_with("AOTC-E413", outcome="crashed", detail="killed by SIGILL"), "AOTC-E413"),
    Check(certificate_rules.ruling, ("*_check_runs(certificate, manifest, place),", ""),
          certified_with("AOTC-E414", runs=without_one), "AOTC-E414"),
    *(Check(certificate_rules._check_passed, ("certificate.outcome != PASSED", "False"),
            certified_with("AOTC-E413", outcome=outcome), "AOTC-E413")
      for outcome in ("beyond tolerance", "refused", "crashed", "hung", "unheard of")),
    Check(certificate_rules._check_passed, ("or beyond", ""),
          certified_with("AOTC-E413", runs=changed(1, withinTolerance=False)), "AOTC-E413"),
    Check(certificate_rules._check_runs, (RUNS, "False"),
          certified_with("AOTC-E414", runs=changed(0, fixture=OTHER)), "AOTC-E414"),
    Check(certificate_rules._check_runs, (RUNS, "False"),
          certified_with("AOTC-E414", runs=changed(0, executable=OTHER)), "AOTC-E414"),
    Check(certificate_rules._check_runs, (RUNS, "False"),
          certified_with("AOTC-E414", runs=changed(0, label="predict[batch=9]")), "AOTC-E414"),
    Check(certificate_rules._check_runs, ("len(found) != len(wanted)", "False"),
          certified_with("AOTC-E414", runs=one_twice), "AOTC-E414"),
    Check(verify_bundle.certificates_of, ("not policy.certifiers", "False"),
          without_certifiers, "refused", "AOTC-E412"),
]  # fmt: skip


def of_another_payload(arms: Arms) -> str:
    envelope = json.loads(statement(arms.documents, arms.stranger, a_certificate(arms.documents)))
    kind, payload = "application/vnd.other+json", base64.b64decode(envelope["payload"])
    message = in_toto.pre_authentication_encoding(kind, payload)
    signature = base64.b64encode(arms.stranger.sign(message)).decode()
    envelope |= {"payloadType": kind}
    envelope["signatures"] = [{"sig": signature, "keyid": arms.stranger.key_id}]
    return judged(arms, "AOTC-E412", json.dumps(envelope).encode())


@pytest.mark.parametrize("check", CHECKS, ids=[check.label for check in CHECKS])
def test_a_certificate_counts_exactly_when_its_check_is_removed(
    check: Check, arms: Arms, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows_that_it_matters(check, arms, monkeypatch)


def test_every_code_of_certificates_has_its_check_here() -> None:
    assert codes_in(certificate_rules) <= {check.code for check in CHECKS}
