"""What a build manifest says is the same in the process that is given it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aotc.config import manifest_values
from aotc.config.build_manifest import read_build_manifest
from aotc_runtime.schema.manifest_labels import executable_key

ROOT = Path(__file__).parents[3]
MANIFESTS = sorted([*ROOT.glob("manifests/*.toml"), *ROOT.glob("tests/golden/*.toml")])


@pytest.mark.parametrize("path", MANIFESTS, ids=[path.stem for path in MANIFESTS])
def test_a_manifest_is_read_back_as_it_was(path: Path) -> None:
    manifest = read_build_manifest(path)
    data = manifest_values.encode(manifest)
    again = manifest_values.decode(data)
    assert again == manifest
    assert manifest_values.encode(again) == data
    assert again.where("name") == manifest.where("name")


EVERY_KIND = """\
schema = 1
name = "every"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
mesh = { data = 2 }

[weights.params]
init = "m:init"
shardings = { "**" = [["data"], []] }

[dimensions]
batch = { range = [2, 64], multiple_of = 2, profiles = { multiples_of = 16 } }
seq = { range = [8, 100], profiles = "powers_of_two" }
width = { range = [1, 9], profiles = [9] }

[entry_points.f]
function = "m:f"
bind = { params = "params" }
relations = ["batch*seq <= 512"]
inputs.x = [{ y = { shape = ["batch", "seq", "width"], dtype = "float32" } }]
inputs.key = { like = "m:key", arguments = { n = "batch" } }
out_of_profile.batch = "split"
out_of_profile.width = "fail"
out_of_profile.seq = { policy = "pad", fill = { "x/0/y" = -1 } }

[target.cpu-x86-64-v3]
dimensions.batch.profiles = { multiples_of = 32 }
entry_points.f.profiles = [{ batch = 2, seq = 8, width = 1 }]
"""


def test_every_kind_of_value_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(EVERY_KIND)
    (tmp_path / "one.toml").write_text(
        EVERY_KIND.replace("mesh = { data = 2 }\n", "")
        .replace('shardings = { "**" = [["data"], []] }\n', "")
        .replace('"split"', '{ policy = "compile", meanwhile = "pad" }')
    )
    for name in ("m.toml", "one.toml"):
        manifest = read_build_manifest(tmp_path / name)
        again = manifest_values.decode(manifest_values.encode(manifest))
        assert again == manifest
        assert again.entry_points["f"].out_of_profile == manifest.entry_points["f"].out_of_profile


def test_static_values_keep_their_types_and_their_bits() -> None:
    manifest = read_build_manifest(ROOT / "manifests" / "digits.toml")
    entry_point = manifest.entry_points["predict"]
    static = {
        "numbers": [1, 1.0, -0.0, float("inf"), 2**70, True],
        "tuple": {"dict": [["bytes", "path"]]},
        "path": {"InputLeaf": {}, "DType": "float32"},
        "text": "\ud800 ä\0",
    }
    changed = replace(
        manifest,
        entry_points={"predict": replace(entry_point, static=static)},
        text=bytes(range(256)),
    )
    again = manifest_values.decode(manifest_values.encode(changed))
    assert repr(again) == repr(changed)


def test_keys_of_executables_are_read_back() -> None:
    keys = (executable_key("f", {}), executable_key("f", {"b": 2, "a": 1}))
    assert manifest_values.decode(manifest_values.encode(keys)) == keys


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j])
def test_nothing_else_is_written(value: object) -> None:
    with pytest.raises(AssertionError):
        manifest_values.encode(value)


@pytest.mark.parametrize("data", [b'{"Popen":{"args":["true"]}}', b'{"object":{}}'])
def test_nothing_else_is_made(data: bytes) -> None:
    with pytest.raises(KeyError):
        manifest_values.decode(data)
