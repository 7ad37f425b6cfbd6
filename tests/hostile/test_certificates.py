"""Certificates that make another version acceptable, and the reasons why others do not."""

import base64
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.formats import in_toto
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.certified_releases import Release
from aotc_runtime.schema.host_facts import NOT_INSTALLED, HostFacts
from aotc_runtime.schema.trust_policy import Accepts, Revoked, TrustPolicy
from aotc_runtime.verification.bundle_examination import Verdict, examine
from aotc_runtime.verification.choice_report import certified_of
from aotc_runtime.verification.host_compatibility import choose_target

from .certificates import (
    OTHER,
    TWO,
    a_certificate,
    certified,
    code_of,
    package_of,
    runs_of,
    statement,
    trusting,
    with_another_version,
)
from .provenances import DAY, NOW, a_build, key_of
from .tampering import Documents, policy_for
from .workbench import Workbench

ZEROS = "sha256:" + "0" * 64
PROVENANCE = "https://slsa.dev/provenance/v1"


class Certifying(Workbench):
    """A bundle on a host with a version that it does not accept; `third` certifies."""

    __slots__ = ()

    def certificate(self, signer: LocalSigner | None = None, **stated: Any) -> bytes:
        """An envelope with a certificate that counts, but for what is stated otherwise."""
        made = a_certificate(self.documents, **stated)
        return statement(self.documents, signer or self.third, made)

    def asked(
        self, *envelopes: bytes, policy: TrustPolicy | None = None, now: datetime = NOW
    ) -> Verdict:
        """Verify the bundle with these envelopes by a policy with this certifier."""
        bundle = certified(self.documents, self.ours, *envelopes)
        stated = policy or trusting(self.ours, self.third)
        return examine(bundle, stated, self.host, now.timestamp())

    @property
    def refused(self) -> str:
        """The code of a version that is not accepted."""
        return code_of(self.documents)


@pytest.fixture
def bench(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> Certifying:
    elsewhere = with_another_version(host, documents)
    return Certifying(documents, ours, stranger, LocalSigner.ephemeral(), elsewhere)


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


def test_certificate_of_trusted_certifier_accepts_another_version(bench: Certifying) -> None:
    verdict = bench.asked(bench.certificate())
    assert codes(verdict) == [] and "host" in verdict.gates and verdict.choice is not None
    found = certified_of(verdict.choice)
    assert found is not None
    assert found.release == Release(package_of(bench.documents), OTHER)
    assert found.keys == (bench.third.key_id,)
    manifest = bench.documents.manifest
    device = manifest["requires"].get("device")
    (accepted,) = device["accepts_plugin"] if device else manifest["accepts_jaxlib"]
    assert found.built_with == accepted
    assert found.certified_on == "2026-11-21T12:00:00Z"
    labels = [run["label"] for run in runs_of(bench.documents)]
    assert [d.label for d in found.differences] == labels
    assert {d.ulp_max for d in found.differences} == {7}
    assert verdict.signers == (bench.ours.key_id,), "a certifier vouches for nothing else"


def runs(number: int, **change: Any) -> Callable[[Documents], list[dict[str, Any]]]:
    """Runs of which one is another."""

    def make(documents: Documents) -> list[dict[str, Any]]:
        found = runs_of(documents)
        found[number] |= change
        return found

    return make


@pytest.mark.parametrize(
    ("code", "stated"),
    [
        ("AOTC-E412", {"target": "cpu-x86-64-v4"}),
        ("AOTC-E412", {"version": "0.11.2"}),
        ("AOTC-E412", {"package": "another"}),
        ("AOTC-E412", {"package": "onnxruntime"}),
        ("AOTC-E413", {"outcome": "beyond tolerance"}),
        ("AOTC-E413", {"outcome": "refused"}),
        ("AOTC-E413", {"outcome": "crashed", "detail": "killed by SIGILL"}),
        ("AOTC-E413", {"outcome": "hung"}),
        ("AOTC-E413", {"outcome": "unheard of"}),
        ("AOTC-E413", {"runs": runs(1, withinTolerance=False)}),
        ("AOTC-E414", {"runs": runs(0, fixture=ZEROS)}),
        ("AOTC-E414", {"runs": runs(0, executable=ZEROS)}),
        ("AOTC-E414", {"runs": runs(0, label="predict[batch=9]")}),
        ("AOTC-E414", {"runs": lambda documents: runs_of(documents)[1:]}),
        ("AOTC-E414", {"runs": lambda documents: runs_of(documents) * 2}),
    ],
)
def test_a_certificate_does_not_count(code: str, stated: dict[str, Any], bench: Certifying) -> None:
    made = {k: v(bench.documents) if callable(v) else v for k, v in stated.items()}
    if made.get("package") == package_of(bench.documents):
        made["package"] = "yet-another"
    found = codes(bench.asked(bench.certificate(**made)))
    assert found[0] == bench.refused, "the reason comes first, then why no certificate"
    assert code in found[1:]


@pytest.mark.parametrize(
    "change",
    [
        {"predicateType": "https://aotc.dev/warning/v1"},
        {"_type": "https://in-toto.io/Statement/v0"},
        {"subject": TWO},
    ],
    ids=str,
)
def test_another_statement_is_no_certificate(change: dict[str, Any], bench: Certifying) -> None:
    made = a_certificate(bench.documents)
    found = codes(bench.asked(statement(bench.documents, bench.third, made, **change)))
    assert found == [bench.refused, "AOTC-E412"]


def test_another_payload_and_another_key_certify_nothing(bench: Certifying) -> None:
    envelope = json.loads(bench.certificate())
    kind, payload = "application/vnd.other+json", base64.b64decode(envelope["payload"])
    message = in_toto.pre_authentication_encoding(kind, payload)
    signature = base64.b64encode(bench.third.sign(message)).decode()
    envelope |= {"payloadType": kind}
    envelope["signatures"] = [{"sig": signature, "keyid": bench.third.key_id}]
    for made in (json.dumps(envelope).encode(), bench.certificate(bench.stranger)):
        assert codes(bench.asked(made)) == [bench.refused, "AOTC-E412"]


def test_certifier_key_counts_within_window_until_revoked(bench: Certifying) -> None:
    key = key_of(bench.third, not_before=NOW, not_after=NOW)
    policy = trusting(bench.ours, certifiers=(key,))
    assert codes(bench.asked(bench.certificate(), policy=policy)) == []
    for now in (NOW - DAY, NOW + DAY):
        verdict = bench.asked(bench.certificate(), policy=policy, now=now)
        assert codes(verdict) == [bench.refused, "AOTC-E411", "AOTC-E412"]
        assert bench.third.key_id[:16] in verdict.findings[1].where
    revoked = trusting(bench.ours, bench.third, revoked=Revoked(keys=(bench.third.key_id,)))
    assert "AOTC-E411" in codes(bench.asked(bench.certificate(), policy=revoked))


def test_without_policy_only_builders_version_is_accepted(bench: Certifying) -> None:
    """Neither a certificate by anybody, nor one by a key that vouches for bundles."""
    by_both = [bench.certificate(), bench.certificate(bench.ours)]
    verdict = bench.asked(*by_both, policy=policy_for(bench.ours))
    assert codes(verdict) == [bench.refused]
    assert verdict.choice is not None and certified_of(verdict.choice) is None


def test_a_certifier_does_not_vouch_for_a_bundle(bench: Certifying, host: HostFacts) -> None:
    bundle = certified(bench.documents, bench.third, bench.certificate())
    verdict = examine(bundle, trusting(bench.ours, bench.third), host, NOW.timestamp())
    assert codes(verdict) == ["AOTC-E302"]


@pytest.mark.xla  # no policy lists versions of other engines
def test_a_certificate_widens_no_list_of_the_policy(bench: Certifying) -> None:
    policy = trusting(bench.ours, bench.third, accepts=Accepts(jaxlib=("0.12.0",)))
    assert codes(bench.asked(bench.certificate(), policy=policy)) == ["AOTC-E318"]


def test_a_certificate_removes_no_other_reason(bench: Certifying) -> None:
    bench.host = msgspec.structs.replace(bench.host, isa=frozenset())
    assert codes(bench.asked(bench.certificate())) == ["AOTC-E502"]


def test_of_several_certificates_one_that_did_not_pass_decides(bench: Certifying) -> None:
    stated: dict[str, Any] = {"outcome": "crashed", "detail": "killed by SIGSEGV", "runs": []}
    envelopes = [
        bench.certificate(certified=NOW + DAY),
        bench.certificate(bench.stranger, **stated),
    ]
    verdict = bench.asked(*envelopes, policy=trusting(bench.ours, bench.third, bench.stranger))
    assert codes(verdict) == [bench.refused, "AOTC-E413"]
    assert "killed by SIGSEGV" in verdict.findings[1].found
    assert codes(bench.asked(*envelopes)) == []


def test_of_several_that_count_the_newest_is_named(bench: Certifying) -> None:
    verdict = bench.asked(*[bench.certificate(certified=NOW + days * DAY) for days in (0, 2, 1)])
    assert verdict.choice is not None
    found = certified_of(verdict.choice)
    assert found is not None
    assert found.certified_on == "2026-11-23T12:00:00Z"


@pytest.mark.parametrize(
    "predicate",
    [{}, [], "text", {"schema": 2}, {"schema": 1, "target": 3}],
    ids=["empty", "a list", "a text", "another schema", "another type"],
)
def test_unreadable_certificate_does_not_count(predicate: Any, bench: Certifying) -> None:
    verdict = bench.asked(statement(bench.documents, bench.third, predicate))
    assert codes(verdict) == [bench.refused, "AOTC-E412"]
    assert "cannot be read" in verdict.findings[1].found


def test_a_refusal_says_what_the_certificates_are_about(bench: Certifying) -> None:
    target, package = bench.documents.manifest["target"]["name"], package_of(bench.documents)
    another = statement(bench.documents, bench.third, a_certificate(bench.documents), subject=TWO)
    (_, found) = bench.asked(bench.certificate(version="0.11.2"), another).findings
    assert found.expected.startswith(f"a certificate for {package} {OTHER}, by one of: ")
    assert f"{package} 0.11.2 for {target}" in found.found and "one about" in found.found


def test_host_without_package_is_told_nothing_of_certificates(bench: Certifying) -> None:
    bench.host = msgspec.structs.replace(bench.host, jaxlib=NOT_INSTALLED, accelerators=())
    assert codes(bench.asked(bench.certificate())) == ["AOTC-E405"]


def test_a_key_that_vouches_and_certifies_does_both(bench: Certifying) -> None:
    policy = trusting(bench.ours, bench.ours)
    assert codes(bench.asked(bench.certificate(bench.ours), policy=policy)) == []
    another = a_build() | {"more": "fields"}
    more = statement(bench.documents, bench.ours, another, predicateType=PROVENANCE)
    verdict = bench.asked(more, policy=policy)
    assert codes(verdict) == [bench.refused, "AOTC-E412"]
    assert verdict.findings[1].found == "no certificates"


def test_accepted_version_needs_no_certificate(documents: Documents, host: HostFacts) -> None:
    manifest = msgspec.convert(documents.manifest, BundleManifest)

    def never(*_: object) -> Any:
        raise AssertionError("nobody asks")

    choice = choose_target({manifest.target.name: manifest}, host, None, (), never)
    assert choice.findings == () and certified_of(choice) is None
