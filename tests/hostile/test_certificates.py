"""Which certificates make another jaxlib acceptable, and why the others do not."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from aotc.signing.signer import LocalSigner
from aotc_runtime.errors import Finding
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.policy import Accepts, TrustPolicy
from aotc_runtime.verification import compatibility
from aotc_runtime.verification.compatibility import choose_target
from aotc_runtime.verification.examine import Verdict, examine

from .certificates import (
    OTHER_JAXLIB,
    TWO,
    a_certificate,
    certified,
    runs_of,
    statement,
    trusting,
)
from .provenances import DAY, NOW, a_build, key_of
from .tampering import Documents, MemoryBundle, policy_for

pytestmark = pytest.mark.xla


@pytest.fixture
def elsewhere(host: HostFacts) -> HostFacts:
    """The same host with a jaxlib that the bundle does not accept by itself."""
    return msgspec.structs.replace(host, jaxlib=OTHER_JAXLIB)


@pytest.fixture(scope="session")
def certifier() -> LocalSigner:
    return LocalSigner.ephemeral()


def asked(
    bundle: MemoryBundle, policy: TrustPolicy, host: HostFacts, now: datetime = NOW
) -> Verdict:
    return examine(bundle, policy, host, now.timestamp())


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


def test_a_certificate_of_a_trusted_certifier_makes_another_jaxlib_acceptable(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    envelope = statement(documents, certifier, a_certificate(documents))
    verdict = asked(certified(documents, ours, envelope), trusting(ours, certifier), elsewhere)
    assert codes(verdict) == [] and "host" in verdict.gates and verdict.choice is not None
    found = verdict.choice.certified
    assert found is not None
    assert (found.jaxlib, found.keys) == (OTHER_JAXLIB, (certifier.key_id,))
    assert found.built_with == documents.manifest["built_with"]["jaxlib"]
    assert found.certified_on == "2026-11-21T12:00:00Z"
    labels = [run["label"] for run in runs_of(documents)]
    assert [d.label for d in found.differences] == labels
    assert {d.ulp_max for d in found.differences} == {7}
    assert verdict.signers == (ours.key_id,), "a certifier vouches for nothing else"


def test_without_the_policys_word_the_builders_jaxlib_alone_is_accepted(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    """Neither a certificate by anybody, nor one by a key that vouches for bundles."""
    by_both = [statement(documents, s, a_certificate(documents)) for s in (certifier, ours)]
    bundle = certified(documents, ours, *by_both)
    verdict = asked(bundle, policy_for(ours), elsewhere)
    assert codes(verdict) == ["AOTC-E401"]
    assert verdict.choice is not None and verdict.choice.certified is None


def test_a_certifier_does_not_vouch_for_a_bundle(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, host: HostFacts
) -> None:
    envelope = statement(documents, certifier, a_certificate(documents))
    bundle = certified(documents, certifier, envelope)
    assert codes(asked(bundle, trusting(ours, certifier), host)) == ["AOTC-E302"]


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
    assert codes(verdict) == ["AOTC-E401", "AOTC-E413"]
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
    assert codes(verdict) == ["AOTC-E401", "AOTC-E412"]
    assert "cannot be read" in verdict.findings[1].found


def test_a_refusal_says_what_the_certificates_are_about(
    documents: Documents, ours: LocalSigner, certifier: LocalSigner, elsewhere: HostFacts
) -> None:
    target = documents.manifest["target"]["name"]
    envelopes = [
        statement(documents, certifier, a_certificate(documents, jaxlib="0.11.2")),
        statement(documents, certifier, a_certificate(documents), subject=TWO),
    ]
    bundle = certified(documents, ours, *envelopes)
    (_, found) = asked(bundle, trusting(ours, certifier), elsewhere).findings
    assert found.expected.startswith(f"a certificate for jaxlib {OTHER_JAXLIB} on {target}")
    assert f"jaxlib 0.11.2 for {target}" in found.found and "one about" in found.found


def test_a_key_that_vouches_and_certifies_does_both(
    documents: Documents, ours: LocalSigner, elsewhere: HostFacts
) -> None:
    bundle = certified(documents, ours, statement(documents, ours, a_certificate(documents)))
    assert codes(asked(bundle, trusting(ours, ours), elsewhere)) == []


def test_no_certificate_is_asked_for_where_the_bundle_accepts_the_jaxlib_by_itself(
    documents: Documents, host: HostFacts
) -> None:
    manifest = msgspec.convert(documents.manifest, compatibility.BundleManifest)

    def never(*_: object) -> Any:
        raise AssertionError("nobody asks")

    choice = choose_target({manifest.target.name: manifest}, host, None, (), never)
    assert choice.findings == () and choice.certified is None


def test_certificates_are_not_even_imported_for_the_builders_jaxlib() -> None:
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
        assert [f.code for f in found] == ["AOTC-E401", "AOTC-E411", "AOTC-E412"]
        assert certifier.key_id[:16] in found[1].where


def test_the_builders_statements_are_no_certificates(
    documents: Documents, ours: LocalSigner, elsewhere: HostFacts
) -> None:
    provenance = "https://slsa.dev/provenance/v1"
    another = {**a_build(), "more": "fields"}
    more = statement(documents, ours, another, predicateType=provenance)
    verdict = asked(certified(documents, ours, more), trusting(ours, ours), elsewhere)
    assert codes(verdict) == ["AOTC-E401", "AOTC-E412"]
    assert verdict.findings[1].found == "no certificate by them"
