"""What a build manifest says is the same in the process that is given it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aotc.config import values
from aotc.config.build_manifest import read_build_manifest
from aotc_runtime.schema.labels import executable_key

ROOT = Path(__file__).parents[3]
MANIFESTS = sorted([*ROOT.glob("manifests/*.toml"), *ROOT.glob("tests/golden/*.toml")])


@pytest.mark.parametrize("path", MANIFESTS, ids=[path.stem for path in MANIFESTS])
def test_a_manifest_is_read_back_as_it_was(path: Path) -> None:
    manifest = read_build_manifest(path)
    data = values.encode(manifest)
    again = values.decode(data)
    assert again == manifest
    assert values.encode(again) == data
    assert again.where("name") == manifest.where("name")


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
    again = values.decode(values.encode(changed))
    assert repr(again) == repr(changed)


def test_keys_of_executables_are_read_back() -> None:
    keys = (executable_key("f", {}), executable_key("f", {"b": 2, "a": 1}))
    assert values.decode(values.encode(keys)) == keys


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j])
def test_nothing_else_is_written(value: object) -> None:
    with pytest.raises(AssertionError):
        values.encode(value)


@pytest.mark.parametrize("data", [b'{"Popen":{"args":["true"]}}', b'{"object":{}}'])
def test_nothing_else_is_made(data: bytes) -> None:
    with pytest.raises(KeyError):
        values.decode(data)
