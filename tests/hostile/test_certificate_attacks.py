"""Certificates that must not count, and the code that says why."""

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
from aotc_runtime.verification import certificate_rules
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
from .refused_attacks import Arms, Attack, Refused, codes_in, outcome
from .tampering import ACCEPTED, Documents


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

ATTACKS = [
    Refused(windowed("AOTC-E411", not_after=AGO), "AOTC-E411"),
    Refused(windowed("AOTC-E411", not_before=AHEAD), "AOTC-E411"),
    Refused(by_a_revoked_key, "AOTC-E411"),
    Refused(under("AOTC-E412", signer="nobody"), "AOTC-E412"),
    Refused(lambda arms: of_another_payload(arms), "AOTC-E412"),
    Refused(stated("AOTC-E412", predicateType="https://aotc.dev/warning/v1"), "AOTC-E412"),
    Refused(stated("AOTC-E412", _type="https://in-toto.io/Statement/v0"), "AOTC-E412"),
    Refused(stated("AOTC-E412", subject=TWO), "AOTC-E412"),
    Refused(certified_with("AOTC-E412", target="cpu-x86-64-v4"), "AOTC-E412"),
    Refused(certified_with("AOTC-E412", version="0.11.2"), "AOTC-E412"),
    Refused(certified_with("AOTC-E412", package="another"), "AOTC-E412"),
    Refused(certified_with("AOTC-E413", outcome="crashed", detail="killed by SIGILL"), "AOTC-E413"),
    Refused(certified_with("AOTC-E414", runs=without_one), "AOTC-E414"),
    *(
        Refused(certified_with("AOTC-E413", outcome=outcome), "AOTC-E413")
        for outcome in ("beyond tolerance", "refused", "crashed", "hung", "unheard of")
    ),
    Refused(certified_with("AOTC-E413", runs=changed(1, withinTolerance=False)), "AOTC-E413"),
    Refused(certified_with("AOTC-E414", runs=changed(0, fixture=OTHER)), "AOTC-E414"),
    Refused(certified_with("AOTC-E414", runs=changed(0, executable=OTHER)), "AOTC-E414"),
    Refused(certified_with("AOTC-E414", runs=changed(0, label="predict[batch=9]")), "AOTC-E414"),
    Refused(certified_with("AOTC-E414", runs=one_twice), "AOTC-E414"),
    Refused(without_certifiers, "refused"),
]


def of_another_payload(arms: Arms) -> str:
    envelope = json.loads(statement(arms.documents, arms.stranger, a_certificate(arms.documents)))
    kind, payload = "application/vnd.other+json", base64.b64decode(envelope["payload"])
    message = in_toto.pre_authentication_encoding(kind, payload)
    signature = base64.b64encode(arms.stranger.sign(message)).decode()
    envelope |= {"payloadType": kind}
    envelope["signatures"] = [{"sig": signature, "keyid": arms.stranger.key_id}]
    return judged(arms, "AOTC-E412", json.dumps(envelope).encode())


@pytest.mark.parametrize("case", ATTACKS, ids=[case.label for case in ATTACKS])
def test_a_certificate_does_not_count(case: Refused, arms: Arms) -> None:
    assert outcome(case.attack, arms) == case.code


def test_every_code_of_certificates_has_its_check_here() -> None:
    assert codes_in(certificate_rules) <= {case.code for case in ATTACKS}
