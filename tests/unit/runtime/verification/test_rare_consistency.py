"""Rare parts of manifests, of meshes and of several engines, compared with the rest of them."""

import copy
from typing import Any

import msgspec
import pytest

from aotc_runtime.schema.bundle_manifest import BundleManifest, Evaluation, ProfileRecord, WeightSet
from aotc_runtime.verification.host_compatibility import wanted_facts
from aotc_runtime.verification.manifest_consistency import check_consistency
from aotc_runtime.verification.policy_rules import check_engines, runnable
from aotc_runtime.verification.rare_consistency import (
    check_assets,
    check_evaluations,
    check_mesh,
    check_mixed,
    check_packed,
    check_precisions,
)

from ..samples import DOCUMENT, PROFILE, REF, manifest
from .test_compatibility import NEEDS_IREE

MESH = {
    "axes": [{"name": "data", "size": 2}, {"name": "model", "size": 3}],
    "devices": [0, 1, 2, 3, 4, 5],
}
WEIGHTS = {
    "params": {
        "blobs": [REF],
        "origin": "init",
        "tensors": [
            {"name": "w", "dtype": "float32", "shape": [6, 4], "sharding": [["model"], []]}
        ],
    }
}


def sharded(**change: Any) -> BundleManifest:
    """The sample over six devices, its columns cut by three. change: input, output, tensor."""
    document = msgspec.json.decode(msgspec.json.encode(DOCUMENT))
    entry_point = document["entry_points"]["predict"]
    entry_point["inputs"][0]["sharding"] = change.pop("input", [["data"], ["model"]])
    entry_point["outputs"][0]["sharding"] = change.pop("output", [["data"]])
    entry_point |= change.pop("entry_point", {})
    weights = msgspec.json.decode(msgspec.json.encode(WEIGHTS))
    weights["params"]["tensors"][0]["sharding"] = change.pop("tensor", [["model"], []])
    return manifest(
        **{
            "entry_points": {"predict": entry_point},
            "weights": weights,
            "mesh": MESH,
            "requires": {"devices": 6},
            "target": {"devices": 6},
            **change,
        }
    )


def found(bundle: BundleManifest) -> list[tuple[str, str]]:
    findings = [*check_mesh(bundle, "m")]
    assert {finding.code for finding in findings} <= {"AOTC-E118"}
    return [(finding.where, finding.found) for finding in findings]


def test_what_fits_is_accepted() -> None:
    assert found(sharded()) == found(manifest()) == []


def test_the_devices_of_an_accelerator_may_have_another_order() -> None:
    mesh = {**MESH, "devices": [0, 2, 1, 3, 4, 5]}
    device = {"kinds": ["TPU v5e"], "memory_bytes": 1, "plugin": "libtpu", "accepts_plugin": ["1"]}
    assert found(sharded(mesh=mesh, requires={"devices": 6, "device": device})) == []


def test_the_mesh_is_among_what_is_checked() -> None:
    assert [f.where for f in check_consistency(sharded(input=[[], []]), "m")] == ["m predict x"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"mesh": {**MESH, "axes": []}}, ("m mesh", "none")),
        ({"mesh": {**MESH, "axes": [MESH["axes"][0]] * 2}}, ("m mesh", "data, data")),
        *(
            ({"mesh": {**MESH, "devices": devices}}, ("m mesh devices", str(devices)[1:-1]))
            for devices in (
                [0, 1, 2, 3, 4, 4],
                [1, 2, 3, 4, 5, 6],
                [0, 1, 2],
                [0, 1, 2, 3, 4, 5, 6],
                [0, 2, 1, 3, 4, 5],
            )
        ),
        ({"requires": {"devices": 1}}, ("m mesh", "6, 1 and 6")),
        ({"target": {"devices": 7}}, ("m mesh", "6, 6 and 7")),
        ({"input": [["data"], ["date"]]}, ("m predict x", "axis 1: no axis date of the mesh")),
        (
            {"input": [["data"], ["data"]]},
            ("m predict x", "axis 1: the axis data of the mesh a second time"),
        ),
        ({"input": [["data"]]}, ("m predict x", "data")),
        ({"input": [["data"], ["model"], []]}, ("m predict x", "data, model, -")),
        ({"input": [[], []]}, ("m predict x", "-, -")),
        ({"input": [[], ["data"]]}, ("m predict x", "[2, 3]")),
        ({"output": [["model"]]}, ("m predict result", "[2]")),
        ({"tensor": [[], ["model"]]}, ("m params w", "[6, 4]")),
        (
            {"entry_point": {"symbolic": {"module": REF, "arguments": []}}},
            ("m predict", "a symbolic module"),
        ),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], expected: tuple[str, str]) -> None:
    assert found(sharded(**change)) == [expected]


def test_there_are_no_shardings_without_a_mesh() -> None:
    everything = sharded()
    without = msgspec.structs.replace(everything, mesh=msgspec.UNSET)
    assert [where for where, _ in found(without)] == [
        "m params w",
        "m predict x",
        "m predict result",
    ]


type Document = dict[str, Any]


def document() -> Document:
    """One profile by XLA, the other by IREE."""
    made = copy.deepcopy(DOCUMENT)
    made["requires"]["custom_call_targets"] = []
    made["requires"]["engines"] = {"iree": NEEDS_IREE}
    small = {**PROFILE, "sizes": {"batch": 1}, "input_shapes": [[1, 3]], "output_shapes": [[1]]}
    made["entry_points"]["predict"]["profiles"] = [{**small, "platform": "iree"}, {**PROFILE}]
    return made


def profiles(of: Document) -> list[Document]:
    return of["entry_points"]["predict"]["profiles"]


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
BY_IREE = {"target.platform": "iree", "requires.platform": "iree", "requires.device": NEEDS_IREE}
TPU = {"family": "tpu", "topology": "v5e:1x1", "kinds": ["TPU v5e"]}

CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "an engine that is not listed": ({FIRST: "openvino"}, "one of iree, of requires.engines"),
    "an engine without a name": ({SECOND: ""}, "one of iree, of requires.engines"),
    "a list of none": ({"requires.engines": {}, FIRST: None}, "another engine than the target's"),
    "an engine for nothing": ({FIRST: None}, "an executable for iree"),
    "the target's for nothing": ({SECOND: "iree"}, "an executable for cpu"),
    "the target's own twice": (BY_IREE, "each engine once"),
    "two devices of one engine": (
        {"requires.engines.iree-vulkan": NEEDS_IREE, SECOND: "iree-vulkan"},
        "each engine once",
    ),
    "an accelerator of XLA's": (
        {"requires.engines.cuda": NEEDS_IREE, SECOND: "cuda"},
        "XLA as the target's own engine",
    ),
    "XLA beside another": (
        {**BY_IREE, "requires.engines": {"cpu": NEEDS_IREE}, FIRST: "cpu"},
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
            "requires.device": {**NEEDS_IREE, "plugin": "libtpu"},
        },
        "one processor, where engines are several",
    ),
    "an accelerator of XLA's that is no processor": (
        {"target.platform": "tpu", "requires.platform": "tpu"},
        "a processor, where engines are several",
    ),
}
"""By dotted path, values that are set; None removes them."""


def changed(change: dict[str, Any], made: Document) -> Document:
    for path, value in change.items():
        *steps, last = path.split(".")
        inner: Any = made
        for step in steps:
            inner = inner[int(step) if step.isdigit() else step]
        if value is None:
            del inner[int(last) if last.isdigit() else last]
        else:
            inner[last] = value
    return made


def with_range() -> Document:
    """One executable by ONNX Runtime for both sizes of the sample."""
    made = copy.deepcopy(DOCUMENT)
    made["format_version"] = "1.1"
    made["target"]["platform"] = made["requires"]["platform"] = "onnxruntime"
    made["requires"] |= {"custom_call_targets": [], "device": NEEDS_IREE}
    small = {"sizes": {"batch": 1}, "input_shapes": [[1, 3]], "output_shapes": [[1]]}
    entry = made["entry_points"]["predict"]
    entry["profiles"] = [{**PROFILE, **small}, copy.deepcopy(PROFILE)]
    entry["out_of_profile"] = {"batch": {"policy": "range"}}
    return made


OF = "entry_points.predict"
RANGES: dict[str, tuple[dict[str, Any], str]] = {
    "the first version": ({"format_version": "1.0"}, "a range with format version 1.1"),
    "XLA": (
        {"target.platform": "cpu", "requires.platform": "cpu", "requires.device": None},
        "a range with an engine of onnxruntime",
    ),
    "a policy": ({f"{OF}.out_of_profile.z": {"policy": "range"}}, "a range with no other policy"),
    "two executables": (
        {f"{OF}.profiles.0.executable": {**REF, "size": 2}},
        "a range with one executable",
    ),
    "no smallest size": (
        {f"{OF}.profiles.0": None},
        "a range with profiles of its smallest and its largest size",
    ),
}


def test_an_executable_for_all_sizes_is_no_contradiction() -> None:
    assert expectations(with_range()) == []


@pytest.mark.parametrize("which", [*CONTRADICTIONS, *RANGES])
def test_a_contradiction_about_engines_is_told(which: str) -> None:
    change, expected = {**CONTRADICTIONS, **RANGES}[which]
    made = with_range() if which in RANGES else document()
    assert expected in expectations(changed(change, made))


def test_facts_of_every_engine_are_asked_for() -> None:
    wanted = wanted_facts({"here": read(document())}, None)
    assert {name: [*known] for name, known in wanted.platforms.items()} == {
        "xla": [],
        "iree": ["iree"],
    }


def test_a_policy_accepts_a_target_whose_engines_it_accepts_all_of() -> None:
    manifests = {"here": read(document())}
    assert [*runnable(manifests, ["xla", "iree"])] == ["here"]
    for engines, lacking in ((["xla"], "iree"), (["iree"], "xla"), (["slate"], "xla and iree")):
        assert not runnable(manifests, engines)
        (finding,) = check_engines(manifests, engines, None)
        assert (finding.code, finding.found) == ("AOTC-E322", lacking)
    assert [*check_engines(manifests, ["xla", "iree"], "here")] == []


def test_xla_may_call_its_libraries_and_other_engines_have_other_platforms() -> None:
    calls = document()
    calls["requires"]["custom_call_targets"] = ["TopK"]
    profiles(calls)[1]["custom_call_targets"] = ["TopK"]
    assert expectations(calls) == []
    other = document()
    other["target"]["platform"] = other["requires"]["platform"] = "onnxruntime"
    found = list(check_mixed(read(other), "sample"))
    assert "a processor, where engines are several" not in [each.expected for each in found]


@pytest.mark.parametrize(
    ("dtype", "version", "found"), [("uint8", "1.1", 0), ("int8", "1.1", 1), ("uint8", "1.0", 1)]
)
def test_packed_weights_are_bytes_of_a_later_format(dtype: str, version: str, found: int) -> None:
    tensor = {"name": "w", "dtype": dtype, "shape": [2, 3], "packed": "int4"}
    weights = {"blobs": [REF], "origin": "init", "tensors": [tensor, {**tensor, "name": "v"}]}
    del weights["tensors"][1]["packed"]
    set_ = msgspec.convert(weights, WeightSet)
    assert [f.where for f in check_packed(set_, version, "m")] == ["m w"] * found


def test_one_file_is_an_asset_and_a_profile_may_state_no_precision() -> None:
    asset = {"kind": "file", "files": {"a": REF}}
    sound = manifest(format_version="1.1", assets={"a": asset})
    assert [*check_assets(sound, "m")] == []
    assert [*check_precisions([msgspec.convert(PROFILE, ProfileRecord)], sound, "m")] == []


@pytest.mark.parametrize(
    ("metric", "low", "high", "found"),
    [("p:f", "1", "1", 0), ("p:f", "1", "2", 0), ("p:f", "0", "0.9", 1), ("top1", "1", "1", 2)],
)
def test_metrics_lie_within_their_interval(metric: str, low: str, high: str, found: int) -> None:
    ran = {"status": "ran", "value": "1", "low": low, "high": high, "method": "wilson", "drop": "0"}
    stated = {"metric": metric, "better": "lower", "samples": 1, "data": REF["digest"]}
    stated |= {"reference": "1", "result": ran, "code": REF["digest"]}
    assert len([*check_evaluations([msgspec.convert(stated, Evaluation)], "m")]) == found
