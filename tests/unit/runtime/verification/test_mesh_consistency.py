"""What a manifest says of meshes and shardings, compared with the rest of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.verification.manifest_consistency import check_consistency
from aotc_runtime.verification.rare_consistency import check_mesh

from ..samples import DOCUMENT, REF, manifest

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
        (
            {"mesh": {**MESH, "devices": [0, 1, 2, 3, 4, 4]}},
            ("m mesh devices", "0, 1, 2, 3, 4, 4"),
        ),
        (
            {"mesh": {**MESH, "devices": [1, 2, 3, 4, 5, 6]}},
            ("m mesh devices", "1, 2, 3, 4, 5, 6"),
        ),
        ({"mesh": {**MESH, "devices": [0, 1, 2]}}, ("m mesh devices", "0, 1, 2")),
        (
            {"mesh": {**MESH, "devices": [0, 2, 1, 3, 4, 5]}},
            ("m mesh devices", "0, 2, 1, 3, 4, 5"),
        ),
        ({"requires": {"devices": 1}}, ("m mesh", "6, 1 and 6")),
        ({"target": {"devices": 7}}, ("m mesh", "6, 6 and 7")),
        ({"input": [["data"], ["date"]]}, ("m predict x", "axis 1: no axis date of the mesh")),
        (
            {"input": [["data"], ["data"]]},
            ("m predict x", "axis 1: the axis data of the mesh a second time"),
        ),
        ({"input": [["data"]]}, ("m predict x", "data")),
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
