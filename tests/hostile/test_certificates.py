"""Which certificates make another version acceptable, and why the others do not."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.certified_releases import Release
from aotc_runtime.schema.host_facts import NOT_INSTALLED, HostFacts
from aotc_runtime.schema.trust_policy import Accepts, TrustPolicy
from aotc_runtime.verification import host_compatibility
from aotc_runtime.verification.bundle_examination import Verdict, examine
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
from .tampering import Documents, MemoryBundle, policy_for


@pytest.fixture
def elsewhere(host: HostFacts, documents: Documents) -> HostFacts:
    return with_another_version(host, documents)


@pytest.fixture(scope="session")
def certifier() -> LocalSigner:
    return LocalSigner.ephemeral()


def asked(
    bundle: MemoryBundle, policy: TrustPolicy, host: HostFacts, now: datetime = NOW
) -> Verdict:
    return examine(bundle, policy, host, now.timestamp())


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


def test_a_certificate_of_a_trusted_certifier_makes_another_version_acceptable(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    envelope = statement(documents, certifier, a_certificate(documents))
    verdict = asked(certified(documents, ours, envelope), trusting(ours, certifier), elsewhere)
    assert codes(verdict) == [] and "host" in verdict.gates and verdict.choice is not None
    found = verdict.choice.certified
    assert found is not None
    assert found.release == Release(package_of(documents), OTHER)
    assert found.keys == (certifier.key_id,)
    device = documents.manifest["requires"].get("device")
    (accepted,) = device["accepts_plugin"] if device else documents.manifest["accepts_jaxlib"]
    assert found.built_with == accepted
    assert found.certified_on == "2026-11-21T12:00:00Z"
    labels = [run["label"] for run in runs_of(documents)]
    assert [d.label for d in found.differences] == labels
    assert {d.ulp_max for d in found.differences} == {7}
    assert verdict.signers == (ours.key_id,), "a certifier vouches for nothing else"


@pytest.mark.parametrize("package", ["jaxlib", "onnxruntime", "another"])
def test_a_certificate_of_another_package_of_the_same_version_does_not_count(
    package: str,
    documents: Documents,
    ours: LocalSigner,
    certifier: LocalSigner,
    elsewhere: HostFacts,
) -> None:
    if package == package_of(documents):
        package = "yet-another"
    envelope = statement(documents, certifier, a_certificate(documents, package=package))
    verdict = asked(certified(documents, ours, envelope), trusting(ours, certifier), elsewhere)
    assert codes(verdict) == [code_of(documents), "AOTC-E412"]
    assert f"{package} {OTHER} for " in verdict.findings[1].found


def test_without_the_policys_word_the_builders_version_alone_is_accepted(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    """Neither a certificate by anybody, nor one by a key that vouches for bundles."""
    by_both = [statement(documents, s, a_certificate(documents)) for s in (certifier, ours)]
    bundle = certified(documents, ours, *by_both)
    verdict = asked(bundle, policy_for(ours), elsewhere)
    assert codes(verdict) == [code_of(documents)]
    assert verdict.choice is not None and verdict.choice.certified is None


def test_a_certifier_does_not_vouch_for_a_bundle(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, host: HostFacts
) -> None:
    envelope = statement(documents, certifier, a_certificate(documents))
    bundle = certified(documents, certifier, envelope)
    assert codes(asked(bundle, trusting(ours, certifier), host)) == ["AOTC-E302"]


@pytest.mark.xla  # no policy lists versions of other engines
def test_a_certificate_widens_no_list_of_the_policy(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    envelope = statement(documents, certifier, a_certificate(documents))
    policy = trusting(ours, certifier, accepts=Accepts(jaxlib=("0.12.0",)))
    assert codes(asked(certified(documents, ours, envelope), policy, elsewhere)) == ["AOTC-E318"]


def test_a_certificate_removes_no_other_reason(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    envelope = statement(documents, certifier, a_certificate(documents))
    host = msgspec.structs.replace(elsewhere, isa=frozenset())
    verdict = asked(certified(documents, ours, envelope), trusting(ours, certifier), host)
    assert codes(verdict) == ["AOTC-E502"]


def test_of_several_certificates_one_that_did_not_pass_decides(
    documents: Documents,
    ours: LocalSigner,
    stranger: LocalSigner,
    certifier: LocalSigner,
    elsewhere: HostFacts,
) -> None:
    crashed = a_certificate(documents, outcome="crashed", detail="killed by SIGSEGV", runs=[])
    envelopes = [
        statement(documents, certifier, a_certificate(documents, certified=NOW + DAY)),
        statement(documents, stranger, crashed),
    ]
    bundle = certified(documents, ours, *envelopes)
    verdict = asked(bundle, trusting(ours, certifier, stranger), elsewhere)
    assert codes(verdict) == [code_of(documents), "AOTC-E413"]
    assert "killed by SIGSEGV" in verdict.findings[1].found
    assert codes(asked(bundle, trusting(ours, certifier), elsewhere)) == []


def test_of_several_that_count_the_newest_is_named(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    envelopes = [
        statement(documents, certifier, a_certificate(documents, certified=NOW + days * DAY))
        for days in (0, 2, 1)
    ]
    bundle = certified(documents, ours, *envelopes)
    verdict = asked(bundle, trusting(ours, certifier), elsewhere)
    assert verdict.choice is not None and verdict.choice.certified is not None
    assert verdict.choice.certified.certified_on == "2026-11-23T12:00:00Z"


@pytest.mark.parametrize(
    "predicate",
    [{}, [], "text", {"schema": 2}, {"schema": 1, "target": 3}],
    ids=["empty", "a list", "a text", "another schema", "another type"],
)
def test_a_certificate_that_cannot_be_read_does_not_count_and_says_so(
    predicate: Any,
    documents: Documents,
    ours: LocalSigner,
    certifier: LocalSigner,
    elsewhere: HostFacts,
) -> None:
    bundle = certified(documents, ours, statement(documents, certifier, predicate))
    verdict = asked(bundle, trusting(ours, certifier), elsewhere)
    assert codes(verdict) == [code_of(documents), "AOTC-E412"]
    assert "cannot be read" in verdict.findings[1].found


def test_a_refusal_says_what_the_certificates_are_about(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    target = documents.manifest["target"]["name"]
    envelopes = [
        statement(documents, certifier, a_certificate(documents, version="0.11.2")),
        statement(documents, certifier, a_certificate(documents), subject=TWO),
    ]
    bundle = certified(documents, ours, *envelopes)
    (_, found) = asked(bundle, trusting(ours, certifier), elsewhere).findings
    assert found.expected.startswith(
        f"a certificate for {package_of(documents)} {OTHER} on {target}"
    )
    assert (
        f"{package_of(documents)} 0.11.2 for {target}" in found.found and "one about" in found.found
    )


def test_a_host_without_the_package_is_told_that_and_nothing_of_certificates(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, host: HostFacts
) -> None:
    bundle = certified(documents, ours, statement(documents, certifier, a_certificate(documents)))
    without = msgspec.structs.replace(host, jaxlib=NOT_INSTALLED, accelerators=())
    expected = "AOTC-E405" if package_of(documents) == "jaxlib" else "AOTC-E403"
    assert codes(asked(bundle, trusting(ours, certifier), without)) == [expected]


def test_a_key_that_vouches_and_certifies_does_both(
    documents: Documents, ours: LocalSigner, elsewhere: HostFacts
) -> None:
    bundle = certified(documents, ours, statement(documents, ours, a_certificate(documents)))
    assert codes(asked(bundle, trusting(ours, ours), elsewhere)) == []


def test_no_certificate_is_asked_for_where_the_bundle_accepts_the_version_by_itself(
    documents: Documents, host: HostFacts
) -> None:
    manifest = msgspec.convert(documents.manifest, host_compatibility.BundleManifest)

    def never(*_: object) -> Any:
        raise AssertionError("nobody asks")

    choice = choose_target({manifest.target.name: manifest}, host, None, (), never)
    assert choice.findings == () and choice.certified is None


def test_certificates_are_not_even_imported_for_the_builders_version() -> None:
    code = "import aotc_runtime, sys; print(any('certificate' in name for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_time_of_checking_decides_whether_a_certifiers_key_counts(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    bundle = certified(documents, ours, statement(documents, certifier, a_certificate(documents)))
    policy = trusting(ours, certifiers=(key_of(certifier, not_before=NOW, not_after=NOW),))
    second = timedelta(seconds=1)
    assert codes(asked(bundle, policy, elsewhere, NOW)) == []
    for now in (NOW - second, NOW + second):
        found: tuple[Finding, ...] = asked(bundle, policy, elsewhere, now).findings
        assert [f.code for f in found] == [code_of(documents), "AOTC-E411", "AOTC-E412"]
        assert certifier.key_id[:16] in found[1].where


def test_the_builders_statements_are_no_certificates(
    documents: Documents, ours: LocalSigner, elsewhere: HostFacts
) -> None:
    provenance = "https://slsa.dev/provenance/v1"
    another = {**a_build(), "more": "fields"}
    more = statement(documents, ours, another, predicateType=provenance)
    verdict = asked(certified(documents, ours, more), trusting(ours, ours), elsewhere)
    assert codes(verdict) == [code_of(documents), "AOTC-E412"]
    assert verdict.findings[1].found == "no certificate by them"
