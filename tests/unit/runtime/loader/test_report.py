"""Tests of the report of `verify` on a choice among targets."""

from typing import Any

from aotc_runtime.loader.verify_report import Report, report_of
from aotc_runtime.verification.bundle_examination import Verdict
from aotc_runtime.verification.host_compatibility import choose_target

from ..samples import host, manifest


def report(isa: dict[str, list[str]], wanted: str | None = None, absent: Any = ()) -> Report:
    """Of a bundle with these targets on the sample host, which has avx2, fma and sse2."""
    manifests = {
        name: manifest(target={"name": name}, requires={"isa": features})
        for name, features in isa.items()
    }
    choice = choose_target(manifests, host(), wanted, absent)
    chosen = manifests.get(choice.target)
    verdict = Verdict("sha256:", ("a" * 64,), choice, chosen, ("host",), choice.findings)
    return report_of("b.aotb", verdict, host())


def test_the_only_target_needs_no_explanation() -> None:
    assert len(report({"v3": ["avx2"]}).lines) == 4


def test_the_others_are_told_each_with_its_reason() -> None:
    found = report({"v4": ["avx512f"], "v3": ["avx2", "fma"], "v2": ["sse2"]}, absent=("v5",))
    before, refused, absent = found.lines[4:]
    assert "before v2" in before and "1 of the processor's features, not 2" in before
    assert "not v4" in refused and "AOTC-E502" in refused and "avx512f" in refused
    assert absent.startswith("absent  v5")
    assert found.document["target"] == "v3"
    assert found.document["target_reason"]["rule"] == "most processor features"


def test_a_refusal_has_the_candidates_too() -> None:
    found = report({"v4": ["avx512f"], "v5": ["avx512vl"]})
    assert (found.exit_code, found.lines) == (7, ())
    fits = {c["target"]: c["fits"] for c in found.document["target_reason"]["candidates"]}
    assert fits == {"v4": False, "v5": False}
    assert report({"v4": ["avx512f"]}, "v3").document["target_reason"]["rule"] == "named"
