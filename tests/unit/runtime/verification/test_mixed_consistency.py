"""Manifests of targets whose executables are of several engines, and policies about them."""

from __future__ import annotations

import copy
from collections.abc import Callable
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


def _unlisted(of: Document) -> None:
    profiles(of)[0]["platform"] = "openvino"


def _nameless(of: Document) -> None:
    profiles(of)[1]["platform"] = ""


def _none_listed(of: Document) -> None:
    of["requires"]["engines"] = {}
    del profiles(of)[0]["platform"]


def _unused(of: Document) -> None:
    del profiles(of)[0]["platform"]


def _own_unused(of: Document) -> None:
    profiles(of)[1]["platform"] = "iree"


def _own_listed(of: Document) -> None:
    of["target"]["platform"] = of["requires"]["platform"] = "iree"
    of["requires"]["device"] = NEEDS


def _two_devices_of_one(of: Document) -> None:
    of["requires"]["engines"]["iree-vulkan"] = NEEDS
    profiles(of)[1]["platform"] = "iree-vulkan"


def _of_xla(of: Document) -> None:
    of["requires"]["engines"]["cuda"] = NEEDS
    profiles(of)[1]["platform"] = "cuda"


def _xla_beside(of: Document) -> None:
    of["target"]["platform"] = of["requires"]["platform"] = "iree"
    of["requires"]["device"] = NEEDS
    of["requires"]["engines"] = {"cpu": NEEDS}
    profiles(of)[0]["platform"] = "cpu"


def _custom_calls(of: Document) -> None:
    profiles(of)[0]["custom_call_targets"] = ["TopK"]


def _several_devices(of: Document) -> None:
    of["target"]["devices"] = 2


def _meshed(of: Document) -> None:
    of["mesh"] = {"axes": [{"name": "data", "size": 1}], "devices": [0]}


def _accelerated(of: Document) -> None:
    of["target"]["platform"] = of["requires"]["platform"] = "tpu"
    of["target"]["device"] = {"family": "tpu", "topology": "v5e:1x1", "kinds": ["TPU v5e"]}
    of["requires"]["device"] = {**NEEDS, "plugin": "libtpu"}


CONTRADICTIONS: dict[str, tuple[Callable[[Document], None], str]] = {
    "an engine that is not listed": (_unlisted, "one of iree, of requires.engines"),
    "an engine without a name": (_nameless, "one of iree, of requires.engines"),
    "a list of none": (_none_listed, "another engine than the target's"),
    "an engine for nothing": (_unused, "an executable for iree"),
    "the target's for nothing": (_own_unused, "an executable for cpu"),
    "the target's own twice": (_own_listed, "each engine once"),
    "two devices of one engine": (_two_devices_of_one, "each engine once"),
    "an accelerator of XLA's": (_of_xla, "XLA as the target's own engine"),
    "XLA beside another": (_xla_beside, "XLA as the target's own engine"),
    "custom calls": (_custom_calls, "no custom calls, which iree lacks"),
    "several devices": (_several_devices, "one processor, where engines are several"),
    "a mesh": (_meshed, "one processor, where engines are several"),
    "an accelerator": (_accelerated, "one processor, where engines are several"),
}


@pytest.mark.parametrize("which", CONTRADICTIONS)
def test_a_contradiction_about_engines_is_told(which: str) -> None:
    change, expected = CONTRADICTIONS[which]
    changed = document()
    change(changed)
    assert expected in expectations(changed)


def test_an_accelerator_of_xlas_is_no_processor() -> None:
    changed = document()
    changed["target"]["platform"] = changed["requires"]["platform"] = "tpu"
    assert "a processor, where engines are several" in expectations(changed)


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
