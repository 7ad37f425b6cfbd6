"""Targets and the hosts that run them, and how that is known."""

from typing import Any

import msgspec
import pytest
from unit.runtime.samples import PROFILE, host, manifest

from aotc.commands.compat.compat_matrix import BuildParity, Claim, Level, PolicyChecks, Row, matrix
from aotc.commands.compat.compat_text import compat_findings
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BundleManifest, Target
from aotc_runtime.schema.certified_releases import Certified, MeasuredDifference, Release, Ruling
from aotc_runtime.schema.host_facts import NOT_INSTALLED, Accelerator, HostFacts
from aotc_runtime.system import processor_check

V2 = ["sse2", *sorted(processor_check.floor("0.11.2"))]
V3 = ["sse2", *sorted(processor_check.floor("0.12.0"))]
V4 = [*V3, "avx512f", "avx512vl"]
LEVELS = {"v2": V2, "v3": V3, "v4": V4}


def bundle(*names: str, **change: Any) -> dict[str, BundleManifest]:
    return {
        name: manifest(
            target={"name": name, "features": LEVELS[name]},
            requires={"isa": LEVELS[name], **change},
        )
        for name in names
    }


def target(name: str, features: list[str], **change: Any) -> Target:
    made = manifest(target={"name": name, "features": features}).target
    return msgspec.structs.replace(made, **change)


KNOWN = [target(name, features) for name, features in LEVELS.items()]


def on(features: list[str], **facts: Any) -> HostFacts:
    return host(isa=frozenset(features), **facts)


def row(manifests: dict[str, BundleManifest], facts: HostFacts, known: list[Target] = KNOWN) -> Row:
    (found,) = matrix(manifests, {"web1": facts}, [], known)
    return found


def levels(found: Row) -> dict[str, Level]:
    return {cell.target: cell.level for cell in found.cells}


def test_a_target_is_usable_where_the_host_has_all_that_it_needs() -> None:
    found = row(bundle("v2", "v3", "v4"), on(V3))
    assert (found.runs, found.build_for) == ("v3", ())
    assert levels(found) == {"v3": Level.USABLE, "v2": Level.USABLE, "v4": Level.NO}
    assert [cell.target for cell in found.cells] == ["v3", "v2", "v4"], "best first"


OTHERS = {
    "a platform": target("other", V3, platform="tpu"),
    "an architecture": target("other", V3, triple="riscv64-unknown-linux-gnu"),
    "a feature": target("other", [*V3, "amx-tile"]),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_a_target_that_this_host_cannot_run_is_not_named(other: Target) -> None:
    assert row(bundle("v4"), on(V3), [other]).build_for == ()


def test_no_comes_with_every_reason_and_the_features_that_are_missing() -> None:
    found = row(bundle("v4", devices=2), on(V3, devices_fixed=True))
    (cell,) = found.cells
    assert (found.runs, cell.level) == (None, Level.NO)
    assert [finding.code for finding in cell.findings] == ["AOTC-E502", "AOTC-E503"]
    assert cell.evidence.missing_features == ("avx512f", "avx512vl")
    assert cell.evidence.required_features == tuple(sorted(V4))


def test_a_jaxlib_that_nobody_tried_is_unknown_if_nothing_else_is_in_the_way() -> None:
    found = row(bundle("v3", "v4"), on(V3, jaxlib="0.12.1"))
    assert (found.runs, found.level) == (None, Level.UNKNOWN)
    assert levels(found) == {"v3": Level.UNKNOWN, "v4": Level.NO}
    assert found.cells[0].target == "v3"
    assert found.cells[0].evidence.accepts_jaxlib == ("0.11.2", "0.12.0")
    assert found.build_for == (), "another target would change nothing"


def test_a_host_without_jaxlib_is_a_no_as_nothing_of_it_could_be_certified() -> None:
    found = row(bundle("v3"), on(V3, jaxlib=NOT_INSTALLED))
    assert (found.runs, found.level) == (None, Level.NO)


def test_a_target_of_an_engine_is_named_where_the_host_has_its_device() -> None:
    other = target("other", V3, platform="iree")
    for devices, named in ((0, ()), (1, ("other",))):
        facts = on(V3, accelerators=(Accelerator("iree", devices, ("d",), 0, "1"),))
        assert row(bundle("v4"), facts, [other]).build_for == named


def test_where_none_runs_the_known_targets_that_would_are_named_best_first() -> None:
    assert row(bundle("v4"), on(V3)).build_for == ("v3", "v2")
    assert row(bundle("v4"), on(V3), KNOWN[2:]).build_for == (), "none of them would"
    for facts in (on(V3, memory_bytes=1), on(V3, jaxlib="0.1")):
        assert row(bundle("v4"), facts).build_for == (), "another target would change nothing"


def test_versions_are_tried_on_every_host_instead_of_its_own() -> None:
    hosts = {"web1": on(V3), "web2": on(V4, jaxlib="0.1")}
    rows = matrix(bundle("v3"), hosts, ["0.11.2", "0.13", "0.11.2"], KNOWN)
    assert [(r.host, r.facts.jaxlib, r.runs) for r in rows] == [
        ("web1", "0.11.2", "v3"),
        ("web1", "0.13", None),
        ("web2", "0.11.2", "v3"),
        ("web2", "0.13", None),
    ]


def test_what_jaxlib_needs_of_a_processor_is_known_of_x86_alone() -> None:
    arm = bundle("v3", architecture="aarch64", isa=["neon"])
    found = row(arm, on(["neon"], architecture="aarch64"), [])
    assert (found.runs, found.cells[0].findings) == ("v3", ())


def test_where_jaxlib_itself_does_not_start_no_target_is_proposed() -> None:
    rows = matrix(bundle("v2"), {"web1": on(V2)}, ["0.11.2", "0.12.0"], KNOWN)
    assert [r.runs for r in rows] == ["v2", None]
    (cell,) = rows[1].cells
    assert (cell.level, [f.code for f in cell.findings]) == (Level.NO, ["AOTC-E506"])
    assert "avx2" in cell.findings[0].expected and rows[1].build_for == ()


NEEDS = {
    "platform": "iree",
    "device": {"kinds": ["d"], "memory_bytes": 0, "plugin": "p", "accepts_plugin": ["1"]},
}


ENGINE = Accelerator(platform="iree", devices=1, kinds=("d",), memory_bytes=0, plugin="1")


def test_what_jaxlib_itself_needs_is_asked_of_xlas_targets_alone() -> None:
    other = manifest(
        target={"name": "v2", "platform": "iree", "features": ["sse2"]},
        requires={"isa": ["sse2"], "custom_call_targets": [], **NEEDS},
    )
    old = on(["sse2"], jaxlib="0.12.0", accelerators=(ENGINE,))
    assert row({"v2": other}, old).runs == "v2"
    mixed = row({"v2": other, **bundle("v3")}, old)
    assert mixed.runs is None
    assert {cell.findings[0].code for cell in mixed.cells} == {"AOTC-E506"}


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


def made(**change: Any) -> dict[str, BundleManifest]:
    found = manifest(target={"features": V3}, requires={"isa": V3}, **change)
    return {found.target.name: found}


def web1(jaxlib: str) -> dict[str, HostFacts]:
    return {"web1": host(isa=frozenset(V3), jaxlib=jaxlib)}


def checks(*codes: str) -> PolicyChecks:
    """A policy whose certifiers say yes, or no for these reasons."""
    found = tuple(Finding(code, "", "", "", "") for code in codes)
    return PolicyChecks(
        lambda manifest, release: Ruling(None if codes else CERTIFIED, found), lambda *_: ()
    )


def test_a_certificate_that_counts_makes_a_target_usable_and_is_its_evidence() -> None:
    (row,) = matrix(made(), web1(ELSEWHERE), [], [], [CLAIM], checks())
    assert (row.runs, row.level) == ("cpu-x86-64-v3", Level.USABLE)
    assert row.cells[0].evidence.certified == CERTIFIED


def test_a_certificate_that_only_claims_leaves_the_level_unknown_and_is_shown() -> None:
    others = (
        ("cpu-x86-64-v3", "jaxlib", "0.11.2"),
        ("cpu-x86-64-v3", "onnxruntime", ELSEWHERE),
        ("cpu-x86-64-v4", "jaxlib", ELSEWHERE),
    )
    claims = [CLAIM, *(Claim(*each, "passed", "", "", (), 0) for each in others)]
    (row,) = matrix(made(), web1(ELSEWHERE), [], [], claims)
    assert (row.runs, row.level) == (None, Level.UNKNOWN)
    assert (
        row.cells[0].evidence.certificates == (CLAIM,) and row.cells[0].evidence.certified is None
    )
    (finding,) = compat_findings([row])
    assert "aotc trust add-key trust.toml --key KEY --certifier" in finding.hint
    (row,) = matrix(made(), web1(ELSEWHERE), [], [])
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
def test_failed_trial_is_a_no_and_untrusted_trial_is_unknown(codes: str, level: Level) -> None:
    (row,) = matrix(made(), web1(ELSEWHERE), [], [], [], checks(*codes.split()))
    assert (row.runs, row.level) == (None, level)
    assert [finding.code for finding in row.cells[0].findings] == ["AOTC-E401", *codes.split()]


DEVICE = {"kinds": ["d"], "memory_bytes": 0, "plugin": "iree", "accepts_plugin": ["1"]}


@pytest.mark.parametrize(
    ("change", "compiled_by"),
    [
        ({}, "jaxlib 0.12.0"),
        ({"engines": {"iree": DEVICE}}, "iree-base-compiler 3.13, jaxlib 0.12.0"),
        ({"platform": "iree", "device": DEVICE}, "iree-base-compiler 3.13"),
    ],
    ids=["XLA", "mixed", "IREE"],
)
def test_compilers_are_those_of_the_target(change: dict[str, Any], compiled_by: str) -> None:
    found = manifest(
        target={"features": V3, "platform": change.get("platform", "cpu")},
        requires={"isa": V3, "custom_call_targets": [], **change},
        built_with={"tools": {"iree-base-compiler": "3.13"}},
    )
    (row,) = matrix({found.target.name: found}, web1("0.12.0"), [], [])
    assert row.cells[0].evidence.compiled_by == compiled_by


def test_a_policy_that_refuses_the_runtime_is_a_reason_on_every_target() -> None:
    refused = Finding("AOTC-E318", "", "", "", "")
    asked = PolicyChecks(None, lambda facts, engines: [refused] if facts.jaxlib == "0.12.0" else [])
    no, yes = matrix(made(), web1("0.12.0"), ["0.12.0", "0.11.2"], [], [], asked)
    assert (no.runs, no.level, yes.runs) == (None, Level.NO, "cpu-x86-64-v3")


def test_the_parity_of_the_build_is_evidence_or_says_why_there_is_none() -> None:
    ran = {"status": "ran", "max_abs": "1e-07", "max_rel": "1e-06", "elements": 2, "worst": "x"}
    entry = msgspec.to_builtins(manifest())["entry_points"]["predict"]
    profiles = [{**PROFILE, "parity": {**ran, "ulp_max": n}} for n in (2, 9)] + [PROFILE]
    changed = made(entry_points={"predict": {**entry, "profiles": profiles}})
    (row,) = matrix(changed, web1("0.12.0"), [], [])
    assert row.cells[0].evidence.parity_at_build == BuildParity(2, 3, 9, "a sample")
