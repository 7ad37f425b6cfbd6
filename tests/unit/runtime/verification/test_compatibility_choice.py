"""Which target of a bundle a host runs, and why."""

from __future__ import annotations

import json
from typing import Any

from aotc_runtime.verification.choice_report import choice_report
from aotc_runtime.verification.host_compatibility import choose_target

from ..samples import host, manifest


def targets(**isa: list[str]) -> dict[str, Any]:
    return {
        name: manifest(target={"name": name}, requires={"isa": features})
        for name, features in isa.items()
    }


def chosen(bundle: dict[str, Any], *isa: str) -> str:
    choice = choose_target(bundle, host(isa=frozenset(isa)), None)
    assert choice.findings == ()
    return choice.target


def test_the_best_target_is_the_one_with_most_features_that_this_host_has() -> None:
    bundle = targets(v2=["sse2"], v3=["sse2", "avx2"], v4=["sse2", "avx2", "fma", "avx512f"])
    assert chosen(bundle, "avx2", "fma", "sse2") == "v3"
    assert chosen(bundle, "avx2", "fma", "sse2", "avx512f") == "v4"
    assert chosen(bundle, "sse2") == "v2"


def test_equal_targets_are_chosen_by_name() -> None:
    assert chosen(targets(b=["avx2"], a=["avx2"]), "avx2") == "a"


def test_if_no_target_fits_every_reason_of_every_target_is_given() -> None:
    choice = choose_target(targets(v3=["avx2"], v4=["avx512f"]), host(isa=frozenset()), None)
    assert [(f.code, f.where.split()[-1]) for f in choice.findings] == [
        ("AOTC-E502", "v3"),
        ("AOTC-E502", "v4"),
    ]


def test_a_wanted_target_is_judged_alone() -> None:
    choice = choose_target(targets(v3=["avx2"], v4=["avx512f"]), host(), "v4")
    assert choice.target == "v4" and [f.code for f in choice.findings] == ["AOTC-E502"]
    assert [candidate.target for candidate in choice.candidates] == ["v4"]


def test_an_unknown_target_is_refused_with_the_known_ones() -> None:
    (finding,) = choose_target(targets(cpu3=[], cpu4=[]), host(), "cpu3x", ["v2"]).findings
    assert finding.code == "AOTC-E505" and "cpu3, cpu4" in finding.expected
    assert finding.found == "no such target" and finding.hint == "did you mean cpu3?"
    (finding,) = choose_target(targets(v3=[]), host(), "nothing like it").findings
    assert "`aotc inspect`" in finding.hint


def test_a_target_that_was_left_out_is_told_from_one_that_never_was() -> None:
    (finding,) = choose_target(targets(v3=[]), host(), "v4", ["v4"]).findings
    assert finding.code == "AOTC-E505" and "left out" in finding.found


def test_a_choice_tells_every_candidate_best_first_with_the_reasons_against_it() -> None:
    bundle = targets(v2=["sse2"], v3=["sse2", "avx2"], v4=["avx512f", "avx512bw"])
    document = json.loads(json.dumps(choice_report(choose_target(bundle, host(), None, ["v5"]))))
    assert document["rule"] == "most processor features"
    assert document["absent"] == ["v5"]
    told = [(c["target"], c["fits"], c["features"]) for c in document["candidates"]]
    assert told == [("v3", True, 2), ("v2", True, 1), ("v4", False, 2)]
    (reason,) = document["candidates"][-1]["findings"]
    assert reason["code"] == "AOTC-E502" and "avx512bw, avx512f" in reason["expected"]
    assert choice_report(choose_target(bundle, host(), "v3"))["rule"] == "named"
