"""What `aotc certify` ends with: each jaxlib that did not pass, or could not be tried."""

from __future__ import annotations

from aotc.commands.certify.certify_bundle import Certification
from aotc.commands.certify.certify_process import Trial
from aotc.commands.certify.certify_text import certify_document, certify_findings
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.certificate_predicate import BEYOND, CRASHED, PASSED, FixtureRun
from aotc_runtime.schema.bundle_manifest import ParityNotRun, ParityRan
from aotc_runtime.schema.certified_releases import Release

RUN = FixtureRun("f[n=1]", "sha256:1", "sha256:2", True, "0.0", "1e-07", 3, 8, "y", "0.1")
NO_WHEEL = Finding("AOTC-E551", "jaxlib 0.1", "an environment", "none", "")
UNSUITED = Finding("AOTC-E502", "cpu", "avx512f", "none", "")


def certification(*trials: Trial, missing: tuple[Finding, ...] = ()) -> Certification:
    parity = ParityRan(max_abs="0.0", max_rel="0.0", ulp_max=7, elements=1, worst="y")
    known = {("cpu", "f[n=1]"): parity, ("other", "f[n=1]"): ParityNotRun(reason="elsewhere")}
    return Certification("digits", "1.0.0", "sha256:0", trials, missing, "", 0, known)


def trial(outcome: str, target: str = "cpu", findings: tuple[Finding, ...] = ()) -> Trial:
    return Trial(
        target, Release("jaxlib", "0.12.1"), outcome, "what happened", (RUN,), None, findings
    )


def test_what_passed_is_no_finding_and_everything_else_is_one() -> None:
    assert list(certify_findings(certification(trial(PASSED)))) == []
    made = certification(
        trial(BEYOND), trial(PASSED), trial(CRASHED), trial("", findings=(UNSUITED,)),
        missing=(NO_WHEEL,),
    )  # fmt: skip
    beyond, crashed, *others = certify_findings(made)
    assert (beyond.code, crashed.code) == ("AOTC-E957", "AOTC-E958")
    assert beyond.found == "beyond tolerance: what happened" and "differences" in beyond.hint
    assert "differences" not in crashed.hint and others == [NO_WHEEL, UNSUITED]


def test_a_version_that_could_not_be_had_alone_is_a_failure() -> None:
    assert list(certify_findings(certification(missing=(NO_WHEEL,)))) == [NO_WHEEL]


def test_a_run_is_told_beside_what_the_build_measured_if_it_did() -> None:
    document = certify_document("b.aotb", certification(trial(PASSED), trial(PASSED, "other")))
    at_build = [t["fixtures"][0]["ulp_max_at_build"] for t in document["trials"]]
    assert at_build == [7, None] and document["key_id"] is None
