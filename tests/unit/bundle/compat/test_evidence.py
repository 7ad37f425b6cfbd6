"""What a level rests on: parity at build, certificates that count, and those that only claim."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from unit.runtime.samples import PROFILE, host, manifest

from aotc.bundle.compat.compat_matrix import BuildParity, Claim, Level, Word, matrix
from aotc.commands.compat.compat_text import compat_findings
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.certified_releases import Certified, MeasuredDifference, Release, Ruling
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.system import processor_check

V3 = ["sse2", *sorted(processor_check.floor("0.12.0"))]
ELSEWHERE = "0.12.7"
CERTIFIED = Certified(
    release=Release("jaxlib", ELSEWHERE),
    built_with="0.12.0",
    digest="sha256:" + "1" * 64,
    keys=("a" * 64,),
    names=("fleet",),
    certified_on="2026-11-21T12:00:00Z",
    cpu="znver5",
    differences=(MeasuredDifference("predict[batch=2]", "1e-07", "1e-06", 3),),
)
CLAIM = Claim(
    "cpu-x86-64-v3", "jaxlib", ELSEWHERE, "passed", "2026-11-21T12:00:00Z", "znver5", ("a",), 3
)


def bundle(**change: Any) -> dict[str, BundleManifest]:
    made = manifest(target={"features": V3}, requires={"isa": V3}, **change)
    return {made.target.name: made}


def on(jaxlib: str) -> dict[str, HostFacts]:
    return {"web1": host(isa=frozenset(V3), jaxlib=jaxlib)}


def word(*codes: str) -> Word:
    """A policy whose certifiers say yes, or no for these reasons."""
    found = tuple(Finding(code, "", "", "", "") for code in codes)
    return Word(
        lambda manifest, release: Ruling(None if codes else CERTIFIED, found), lambda *_: ()
    )


def test_a_certificate_that_counts_makes_a_target_usable_and_is_its_evidence() -> None:
    (row,) = matrix(bundle(), on(ELSEWHERE), [], [], [CLAIM], word())
    assert (row.runs, row.level) == ("cpu-x86-64-v3", Level.OPTIMAL)
    assert row.cells[0].evidence.certified == CERTIFIED


def test_a_certificate_that_only_claims_leaves_the_level_unknown_and_is_shown() -> None:
    others = (
        ("cpu-x86-64-v3", "jaxlib", "0.11.2"),
        ("cpu-x86-64-v3", "onnxruntime", ELSEWHERE),
        ("cpu-x86-64-v4", "jaxlib", ELSEWHERE),
    )
    claims = [CLAIM, *(Claim(*each, "passed", "", "", (), 0) for each in others)]
    (row,) = matrix(bundle(), on(ELSEWHERE), [], [], claims)
    assert (row.runs, row.level) == (None, Level.UNKNOWN)
    assert row.cells[0].evidence.claims == (CLAIM,) and row.cells[0].evidence.certified is None
    (finding,) = compat_findings([row])
    assert "aotc trust add-key trust.toml --key KEY --certifier" in finding.hint
    (row,) = matrix(bundle(), on(ELSEWHERE), [], [])
    assert "aotc certify" in next(compat_findings([row])).hint


@pytest.mark.parametrize(
    ("codes", "level"),
    [
        ("AOTC-E411", Level.UNKNOWN),
        ("AOTC-E412", Level.UNKNOWN),
        ("AOTC-E414", Level.UNKNOWN),
        ("AOTC-E411 AOTC-E412 AOTC-E414", Level.UNKNOWN),
        ("AOTC-E413", Level.NO),
        ("AOTC-E411 AOTC-E413", Level.NO),
    ],
)
def test_what_was_tried_and_failed_is_a_no_and_what_nobody_trusted_tried_is_unknown(
    codes: str, level: Level
) -> None:
    (row,) = matrix(bundle(), on(ELSEWHERE), [], [], [], word(*codes.split()))
    assert (row.runs, row.level) == (None, level)
    assert [finding.code for finding in row.cells[0].findings] == ["AOTC-E401", *codes.split()]


NEEDS = {"kinds": ["d"], "memory_bytes": 0, "plugin": "iree", "accepts_plugin": ["1"]}


@pytest.mark.parametrize(
    ("change", "compiled_by"),
    [
        ({}, "jaxlib 0.12.0"),
        ({"engines": {"iree": NEEDS}}, "iree-base-compiler 3.13, jaxlib 0.12.0"),
        ({"platform": "iree", "device": NEEDS}, "iree-base-compiler 3.13"),
    ],
    ids=["XLA", "mixed", "IREE"],
)
def test_the_compilers_are_those_whose_code_a_target_has(
    change: dict[str, Any], compiled_by: str
) -> None:
    made = manifest(
        target={"features": V3, "platform": change.get("platform", "cpu")},
        requires={"isa": V3, "custom_call_targets": [], **change},
        built_with={"tools": {"iree-base-compiler": "3.13"}},
    )
    (row,) = matrix({made.target.name: made}, on("0.12.0"), [], [])
    assert row.cells[0].evidence.compiled_by == compiled_by


def test_a_policy_that_refuses_the_runtime_is_a_reason_on_every_target() -> None:
    refused = Finding("AOTC-E318", "", "", "", "")
    asked = Word(None, lambda facts, engines: [refused] if facts.jaxlib == "0.12.0" else [])
    no, yes = matrix(bundle(), on("0.12.0"), ["0.12.0", "0.11.2"], [], [], asked)
    assert (no.runs, no.level, yes.runs) == (None, Level.NO, "cpu-x86-64-v3")


def test_the_parity_of_the_build_is_evidence_or_says_why_there_is_none() -> None:
    ran = {"status": "ran", "max_abs": "1e-07", "max_rel": "1e-06", "elements": 2, "worst": "x"}
    entry = msgspec.to_builtins(manifest())["entry_points"]["predict"]
    profiles = [{**PROFILE, "parity": {**ran, "ulp_max": n}} for n in (2, 9)] + [PROFILE]
    changed = bundle(entry_points={"predict": {**entry, "profiles": profiles}})
    (row,) = matrix(changed, on("0.12.0"), [], [])
    assert row.cells[0].evidence.parity == BuildParity(2, 3, 9, "a sample")
