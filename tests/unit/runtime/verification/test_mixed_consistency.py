"""Manifests of targets whose executables are of several engines, and policies about them."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.verification.host_compatibility import wanted_of
from aotc_runtime.verification.manifest_consistency import check_consistency
from aotc_runtime.verification.optional_rules import accepted, check_engines
from aotc_runtime.verification.rare_consistency import check_mixed

from ..samples import DOCUMENT, PROFILE

type Document = dict[str, Any]

NEEDS = {
    "kinds": ["local-sync"],
    "memory_bytes": 0,
    "plugin": "iree-base-runtime",
    "accepts_plugin": ["3.13.0"],
}


def document() -> Document:
    """One profile by XLA, the other by IREE."""
    made = copy.deepcopy(DOCUMENT)
    made["requires"]["custom_call_targets"] = []
    made["requires"]["engines"] = {"iree": NEEDS}
    small = {**PROFILE, "sizes": {"batch": 1}, "input_shapes": [[1, 3]], "output_shapes": [[1]]}
    made["entry_points"]["predict"]["profiles"] = [{**small, "platform": "iree"}, {**PROFILE}]
    return made


def profiles(of: Document) -> list[Document]:
    found: list[Document] = of["entry_points"]["predict"]["profiles"]
    return found


def read(of: Document) -> BundleManifest:
    return msgspec.convert(of, BundleManifest)


def expectations(of: Document) -> list[str]:
    found = list(check_consistency(read(of), "sample"))
    assert {each.code for each in found} <= {"AOTC-E118"}
    return [each.expected for each in found]


def test_engines_that_are_used_and_listed_are_no_contradiction() -> None:
    assert expectations(document()) == []
    assert expectations(copy.deepcopy(DOCUMENT)) == []


FIRST, SECOND = (f"entry_points.predict.profiles.{number}.platform" for number in (0, 1))
BY_IREE = {"target.platform": "iree", "requires.platform": "iree", "requires.device": NEEDS}
TPU = {"family": "tpu", "topology": "v5e:1x1", "kinds": ["TPU v5e"]}

CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "an engine that is not listed": ({FIRST: "openvino"}, "one of iree, of requires.engines"),
    "an engine without a name": ({SECOND: ""}, "one of iree, of requires.engines"),
    "a list of none": (
        {"requires.engines": {}, FIRST: None},
        "another engine than the target's",
    ),
    "an engine for nothing": ({FIRST: None}, "an executable for iree"),
    "the target's for nothing": ({SECOND: "iree"}, "an executable for cpu"),
    "the target's own twice": (BY_IREE, "each engine once"),
    "two devices of one engine": (
        {"requires.engines.iree-vulkan": NEEDS, SECOND: "iree-vulkan"},
        "each engine once",
    ),
    "an accelerator of XLA's": (
        {"requires.engines.cuda": NEEDS, SECOND: "cuda"},
        "XLA as the target's own engine",
    ),
    "XLA beside another": (
        {**BY_IREE, "requires.engines": {"cpu": NEEDS}, FIRST: "cpu"},
        "XLA as the target's own engine",
    ),
    "custom calls": (
        {"entry_points.predict.profiles.0.custom_call_targets": ["TopK"]},
        "no custom calls, which iree lacks",
    ),
    "several devices": ({"target.devices": 2}, "one processor, where engines are several"),
    "a mesh": (
        {"mesh": {"axes": [{"name": "data", "size": 1}], "devices": [0]}},
        "one processor, where engines are several",
    ),
    "an accelerator": (
        {
            "target.platform": "tpu",
            "requires.platform": "tpu",
            "target.device": TPU,
            "requires.device": {**NEEDS, "plugin": "libtpu"},
        },
        "one processor, where engines are several",
    ),
    "an accelerator of XLA's that is no processor": (
        {"target.platform": "tpu", "requires.platform": "tpu"},
        "a processor, where engines are several",
    ),
}
"""By dotted path, values that are set; None removes them."""


def changed(change: dict[str, Any]) -> Document:
    made = document()
    for path, value in change.items():
        *steps, last = path.split(".")
        inner: Any = made
        for step in steps:
            inner = inner[int(step) if step.isdigit() else step]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    return made


@pytest.mark.parametrize("which", CONTRADICTIONS)
def test_a_contradiction_about_engines_is_told(which: str) -> None:
    change, expected = CONTRADICTIONS[which]
    assert expected in expectations(changed(change))


def test_facts_of_every_engine_are_asked_for() -> None:
    wanted = wanted_of({"here": read(document())}, None)
    assert {name: [*known] for name, known in wanted.platforms.items()} == {
        "xla": [],
        "iree": ["iree"],
    }


def test_a_policy_accepts_a_target_whose_engines_it_accepts_all_of() -> None:
    manifests = {"here": read(document())}
    assert [*accepted(manifests, ["xla", "iree"])] == ["here"]
    for engines, lacking in ((["xla"], "iree"), (["iree"], "xla"), (["slate"], "xla and iree")):
        assert not accepted(manifests, engines)
        (finding,) = check_engines(manifests, engines, None)
        assert (finding.code, finding.found) == ("AOTC-E322", lacking)
    assert [*check_engines(manifests, ["xla", "iree"], "here")] == []


def test_xlas_own_executables_may_call_what_xla_has_and_other_engines_have_other_platforms() -> (
    None
):
    calls = document()
    calls["requires"]["custom_call_targets"] = ["TopK"]
    profiles(calls)[1]["custom_call_targets"] = ["TopK"]
    assert expectations(calls) == []
    other = document()
    other["target"]["platform"] = other["requires"]["platform"] = "onnxruntime"
    found = list(check_mixed(read(other), "sample"))
    assert "a processor, where engines are several" not in [each.expected for each in found]
