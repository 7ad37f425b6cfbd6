"""Meshes and shardings in build manifests: what is accepted, and the words of each refusal."""

from collections.abc import Callable

import pytest
from one_finding import Bad, check_one_finding

from aotc.config.build_manifest import BuildManifest
from aotc.config.sharding_specs import assign, matches
from aotc_runtime.base.errors import Finding

GOOD = """\
schema = 1
name = "digits"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
mesh = { data = 2, model = 4 }

[target.cpu-x86-64-v3]
devices = 8

[weights.params]
source = "params.safetensors"
shardings = { "*/kernel" = [[], "model"] }

[dimensions.batch]
range = [2, 64]
multiple_of = 2
profiles = [2, 8, 64]

[entry_points.predict]
function = "digits.model:predict"
bind = { params = "params" }
inputs.image = { shape = ["batch", 64], dtype = "float32" }
inputs.pair = [{ shape = [8], dtype = "int32" }, { shape = [], dtype = "int32" }]

[entry_points.predict.shardings]
inputs = { image = ["data", []], "pair/0" = [["model", "data"]] }
outputs = { label = ["data"] }
"""


@pytest.fixture
def good() -> str:
    return GOOD


def test_a_manifest_with_a_mesh_is_read(read: Callable[[str], BuildManifest]) -> None:
    manifest = read(GOOD)
    assert [*manifest.mesh.items()] == [("data", 2), ("model", 4)]
    assert manifest.weights["params"].shardings == {"*/kernel": ((), ("model",))}
    predict = manifest.entry_points["predict"]
    assert predict.shardings.inputs == {"image": (("data",), ()), "pair/0": (("model", "data"),)}
    assert predict.shardings.outputs == {"label": (("data",),)}
    assert manifest.overrides["cpu-x86-64-v3"].devices == 8


AT = "entry_points.predict.shardings"

# fmt: off
BAD: dict[str, Bad] = {
    "an axis that is none": (
        '[[], "model"]', '[[], "modle"]',
        "AOTC-E806", 'm.toml:12 weights.params.shardings."*/kernel"[1]',
        "one of: data, model", '"modle"', "did you mean `model`?",
    ),
    "an axis twice": (
        'image = ["data", []]', 'image = ["data", "data"]',
        "AOTC-E807", f"m.toml:26 {AT}.inputs.image[1]",
        "at most once", '"data"', "write [] here",
    ),
    "an axis twice in one": (
        '[["model", "data"]]', '[["model", "model"]]',
        "AOTC-E807", f'm.toml:26 {AT}.inputs."pair/0"[0]',
        "at most once", '"model"', "write [] here",
    ),
    "no array": (
        'label = ["data"]', 'label = "data"',
        "AOTC-E805", f"m.toml:27 {AT}.outputs.label",
        "for each axis", '"data" (string)', '["data", []]',
    ),
    "a number for an axis": (
        'label = ["data"]', "label = [2]",
        "AOTC-E805", f"m.toml:27 {AT}.outputs.label",
        "for each axis", "[2] (array)", '["data", []]',
    ),
    "an axis of size 0": (
        "data = 2", "data = 0",
        "AOTC-E805", "m.toml:5 mesh.data",
        "an integer of at least 1", "0 (integer)", "write a size of at least 1",
    ),
    "more devices than there can be": (
        "data = 2", "data = 20000",
        "AOTC-E805", "m.toml:5 mesh",
        "at most 65536 devices", "data = 20000", "multiplied",
    ),
    "no devices": (
        "devices = 8", "devices = 0",
        "AOTC-E805", "m.toml:8 target.cpu-x86-64-v3.devices",
        "an integer of at least 1", "0 (integer)", "write a size of at least 1",
    ),
    "a policy that compiles": (
        "[entry_points.predict]\n", '[entry_points.predict]\nout_of_profile.batch = "compile"\n',
        "AOTC-E807", "m.toml:20 entry_points.predict.out_of_profile.batch",
        "fail, pad, split", "compile", "add profiles",
    ),
    "an unknown kind of sharding": (
        "outputs = {", "output = {",
        "AOTC-E803", f"m.toml:27 {AT}.output",
        "one of: inputs, outputs", "output", "did you mean `outputs`?",
    ),
}
# fmt: on


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_sharding_is_refused(spoiled: Callable[[str, str], list[Finding]], bad: Bad) -> None:
    check_one_finding(spoiled, bad)


def test_shardings_need_a_mesh(spoiled: Callable[[str, str], list[Finding]]) -> None:
    found = spoiled("mesh = { data = 2, model = 4 }\n", "")
    assert [finding.code for finding in found] == ["AOTC-E807"] * 4
    assert {finding.hint for finding in found} == {
        "add `mesh = { data = 2 }`, or remove the shardings"
    }


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("a/b", "a/b", True),
        ("a/*", "a/b", True),
        ("a/*", "a/b/c", False),
        ("*", "a", True),
        ("*", "a/b", False),
        ("**", "a/b", True),
        ("**/kernel", "kernel", True),
        ("**/kernel", "layers/0/kernel", True),
        ("layers/**", "layers", True),
        ("layers/**", "layers/0/kernel", True),
        ("layers/**/up", "layers/up", True),
        ("layers/**/up", "layers/0/up", True),
        ("k*l", "kernel", True),
        ("a.b", "a-b", False),
    ],
)
def test_patterns_match_steps(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


def test_a_lone_result_is_called_result_and_what_nothing_matches_is_not_cut() -> None:
    found, findings = assign({"result": (("x",),)}, {"x": 2}, {"": [("", (4,))]}, str)
    assert (found, findings) == ({"": (("x",),)}, [])
    found, _ = assign({"a": (("x",),)}, {"x": 2}, {"": [("a", (4,)), ("b", (4,))]}, str)
    assert found == {"a": (("x",),), "b": ()}
