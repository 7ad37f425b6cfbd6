"""Tests that certificates state the results, and that failures are diagnostics."""

from datetime import UTC, datetime

import msgspec
from unit.runtime.samples import manifest

from aotc.bundle.sign.attestation import attest, certificate_by, certificates_in
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.certify.certify_bundle import (
    NOT_TOLD,
    Certification,
    certifiable,
    predicate_of,
)
from aotc.commands.certify.certify_process import Trial
from aotc.commands.certify.certify_text import certify_document, certify_findings
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.formats.certificate_predicate import (
    BEYOND,
    CRASHED,
    PASSED,
    Certificate,
    FixtureRun,
    Surroundings,
)
from aotc_runtime.formats.in_toto import CERTIFICATE_TYPE
from aotc_runtime.schema.bundle_manifest import ParityNotRun, ParityRan
from aotc_runtime.schema.certified_releases import Release
from aotc_runtime.verification.public_keys import load_public_key
from tests.refusals import error_of

RUN = FixtureRun("f[n=1]", "sha256:1", "sha256:2", True, "0.0", "1e-07", 3, 8, "y", "0.1")
THERE = Surroundings("znver5", ("avx2",), "Linux", "glibc 2.40", "3.13", "0.1", {"jaxlib": "0.12"})
TRIED = Release("jaxlib", "0.12.1")
NOW = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)


def certificate(trial: Trial) -> Certificate:
    return msgspec.convert(predicate_of(trial, NOW), Certificate)


def test_of_a_process_that_died_before_it_could_say_nothing_is_stated() -> None:
    made = certificate(Trial("cpu", TRIED, CRASHED, "SIGILL", (), None))
    assert (made.outcome, made.detail, made.surroundings) == (CRASHED, "SIGILL", NOT_TOLD)


def test_only_a_statement_of_that_type_is_a_certificate_and_only_its_signer_has_made_it() -> None:
    signer, stranger = LocalSigner.ephemeral(), LocalSigner.ephemeral()
    keys = [load_public_key(each.public_pem(), "", "here") for each in (signer, stranger)]
    predicate = predicate_of(Trial("cpu", TRIED, PASSED, "", (RUN,), THERE), NOW)
    made, other = (
        attest("sha256:" + "0" * 64, "digits", predicate, signer, kind).envelope
        for kind in (CERTIFICATE_TYPE, "https://example.org/other/v1")
    )
    ((certificate, ids),) = certificates_in([made, other, b"no envelope"])
    assert (certificate.jaxlib, ids) == ("0.12.1", (signer.key_id,))
    assert [certificate_by(made, key) is None for key in keys] == [False, True]
    assert certificate_by(other, keys[0]) is None


def test_what_ran_is_another_engines_package_where_no_jaxlib_is_stated() -> None:
    other = Release("onnxruntime", "1.32.0")
    predicate = predicate_of(Trial("cpu", other, PASSED, "", (RUN,), THERE), NOW)
    assert predicate["jaxlib"] == "", "what reads jaxlib's alone finds it to be about none"
    assert msgspec.convert(predicate, Certificate).release == other


def test_only_targets_that_one_package_runs_are_certified() -> None:
    needs = {"kinds": ["CPU"], "memory_bytes": 0, "plugin": "fast", "accepts_plugin": ["2.0"]}
    ours, theirs, both = (
        manifest(target={"name": "a"}),
        manifest(
            target={"name": "b", "platform": "iree"}, requires={"platform": "iree", "device": needs}
        ),
        manifest(target={"name": "c"}, requires={"engines": {"iree": needs}}),
    )
    every = {"c": both, "b": theirs, "a": ours}
    assert certifiable(every, None, ()) == [("jaxlib", ours), ("fast", theirs)]
    assert certifiable(every, "b", ()) == [("fast", theirs)]
    (finding,) = error_of(AotcError, certifiable, every, "c", ()).findings
    expected = ("AOTC-E505", "c", "code for fast and jaxlib")
    assert (finding.code, finding.where, finding.found) == expected
    assert error_of(AotcError, certifiable, every, "d", ()).findings[0].found == "d"


LACKING = Finding("AOTC-E559", "old/bin/python", "jaxlib", "neither", "")
UNSUITED = Finding("AOTC-E502", "cpu", "avx512f", "none", "")


def certification(*trials: Trial, missing: tuple[Finding, ...] = ()) -> Certification:
    parity = ParityRan(max_abs="0.0", max_rel="0.0", ulp_max=7, elements=1, worst="y")
    known = {("cpu", "f[n=1]"): parity, ("other", "f[n=1]"): ParityNotRun(reason="elsewhere")}
    return Certification("digits", "1.0.0", "sha256:0", trials, missing, "", 0, known)


def trial(outcome: str, target: str = "cpu", findings: tuple[Finding, ...] = ()) -> Trial:
    return Trial(target, TRIED, outcome, "what happened", (RUN,), None, findings)


def test_what_passed_is_no_finding_and_everything_else_is_one() -> None:
    assert list(certify_findings(certification(trial(PASSED)))) == []
    assert list(certify_findings(certification(missing=(LACKING,)))) == [LACKING]
    made = certification(
        trial(BEYOND), trial(PASSED), trial(CRASHED), trial("", findings=(UNSUITED,)),
        missing=(LACKING,),
    )  # fmt: skip
    beyond, crashed, *others = certify_findings(made)
    assert (beyond.code, crashed.code) == ("AOTC-E957", "AOTC-E958")
    assert beyond.found == "what happened"
    assert beyond.title == "fixture exceeds its tolerance under this version"
    assert "differences" not in crashed.hint and others == [LACKING, UNSUITED]


def test_a_run_is_told_beside_what_the_build_measured_if_it_did() -> None:
    document = certify_document("b.aotb", certification(trial(PASSED), trial(PASSED, "other")))
    at_build = [t["fixtures"][0]["ulp_max_at_build"] for t in document["trials"]]
    assert at_build == [7, None] and document["key_id"] is None
