"""Tests of the values of a valid build manifest."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.config.build_manifest import (
    BuildManifest,
    InputDict,
    InputLeaf,
    InputLike,
    InputList,
    decode_build_manifest,
    encode_build_manifest,
    read_build_manifest,
)
from aotc.config.input_specs import dimensions_of
from aotc.config.manifest_specs import profiles_of
from aotc.config.routing_policies import check_policies
from aotc_runtime.schema.bundle_manifest import DType, KeyImpl, Pad
from aotc_runtime.schema.tensor_text import KEY_DTYPES

Read = Callable[[str | bytes], BuildManifest]

ROOT = Path(__file__).parents[3]

NESTED = """\
schema = 1
name = "nested"
version = "0.1.0-rc1"
targets = ["cpu-x86-64-v3", "boxes/ours.toml"]
enable_x64 = true

[weights.params]
init = "model:init"

[dimensions]
batch = { range = [1, 4], profiles = [4, 1] }
length = { range = [8, 8], profiles = [8] }

[entry_points.step]
function = "model:Net.step"
bind = { params = "params" }
static = { depth = 3, names = ["a", "b"], options = { fast = true } }
donate = ["state"]

[entry_points.step.inputs]
state = { like = "model:state", arguments = { batch = "batch", size = 16 } }
key = { shape = [], dtype = "uint32" }
pair = [{ shape = ["batch"], dtype = "int64" }, { deep = { shape = [2], dtype = "bool" } }]
batch.image = { shape = ["batch", "length"], dtype = "bfloat16" }
batch.shape = { shape = [2], dtype = "int32" }

[entry_points.step.fixtures]
seed = 7
ranges = { key = [0, 9], "pair/0" = [-3, 3], "batch/image" = [0, 0.5], "batch/shape" = [1, 1] }
"""


def test_plain_manifest_has_defaults(read: Read, good: str, manifest_folder: Path) -> None:
    manifest = read(good)
    assert (manifest.name, manifest.version) == ("digits", "1.0.0")
    assert manifest.targets == ("cpu-x86-64-v3",)
    assert manifest.text == good.encode()
    assert manifest.root == manifest_folder.resolve()
    assert not manifest.enable_x64
    source = manifest.weights["params"].source
    assert source is not None
    assert source[""].text == "params.safetensors"
    assert source[""].path == (manifest_folder / "params.safetensors").resolve()
    predict = manifest.entry_points["predict"]
    assert predict.inputs == {"image": InputLeaf(("batch", 64), DType.FLOAT32)}
    assert (predict.tolerance.rtol, predict.tolerance.atol) == (1e-5, 1e-6)
    assert (predict.donate, predict.static) == ((), {})
    assert (predict.fixtures.file, predict.fixtures.seed) == (None, 0)


def test_manifest_travels_to_another_process(read: Read, manifest_folder: Path) -> None:
    manifest = read(NESTED)
    (manifest_folder / "m.toml").unlink()
    assert decode_build_manifest(encode_build_manifest(manifest)) == manifest


def test_nested_inputs_keep_their_structure_and_leaf_paths(read: Read) -> None:
    step = read(NESTED).entry_points["step"]
    assert step.inputs["state"] == InputLike("model:state", {"batch": "batch", "size": 16})
    assert step.inputs["pair"] == InputList(
        (InputLeaf(("batch",), DType.INT64), InputDict({"deep": InputLeaf((2,), DType.BOOL)}))
    )
    paths = [*step.leaves]
    assert paths == ["state", "key", "pair/0", "pair/1/deep", "batch/image", "batch/shape"]
    assert dimensions_of(step.inputs["state"]) == {"batch"}
    assert dimensions_of(step.inputs["batch"]) == {"batch", "length"}
    assert step.static == {"depth": 3, "names": ["a", "b"], "options": {"fast": True}}
    assert step.fixtures.seed == 7
    assert step.fixtures.ranges["batch/image"] == (0, 0.5)


@pytest.mark.parametrize("impl", KeyImpl)
def test_the_dtype_of_random_keys_is_their_implementation(read: Read, impl: KeyImpl) -> None:
    old = 'key = { shape = [], dtype = "uint32" }'
    new = f'key = {{ shape = ["batch", 3], dtype = "{KEY_DTYPES[impl]}" }}'
    step = read(NESTED.replace(old, new).replace("key = [0, 9], ", "")).entry_points["step"]
    assert step.inputs["key"] == InputLeaf(("batch", 3), impl)
    assert dimensions_of(step.inputs["key"]) == {"batch"}


def test_profiles_are_sorted_and_multiplied_over_the_dimensions_in_use(read: Read) -> None:
    manifest = read(NESTED)
    assert manifest.dimensions["batch"].profiles == (1, 4)
    assert profiles_of(manifest.entry_points["step"], manifest.dimensions) == (
        {"batch": 1, "length": 8},
        {"batch": 4, "length": 8},
    )


def test_an_entry_point_without_dimensions_has_one_empty_profile(read: Read, good: str) -> None:
    start = good.index("[dimensions"), good.index("[entry_points")
    text = (good[: start[0]] + good[start[1] :]).replace('"batch", 64', "64")
    manifest = read(text)
    assert profiles_of(manifest.entry_points["predict"], manifest.dimensions) == ({},)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_do_not_matter(read: Read, good: str, ending: str) -> None:
    assert read(good.replace("\n", ending)).name == "digits"


@pytest.mark.parametrize("version", ["0.0.0", "10.20.30", "1.2.0-rc1", "1.0.0.dev3", "1.0.0rc1"])
def test_versions_with_three_numbers_are_accepted(read: Read, good: str, version: str) -> None:
    assert read(good.replace("1.0.0", version)).version == version


@pytest.mark.parametrize(
    "version", ["", "1", "1.0", "01.0.0", "1.0.0 ", "1.0.0-", "v1.0.0", "1.٣.0"]
)
def test_other_versions_are_not(spoiled: Callable[[str, str], list[object]], version: str) -> None:
    assert len(spoiled("1.0.0", version)) == 1


@pytest.mark.parametrize("path", sorted((ROOT / "manifests").glob("*.toml")), ids=lambda p: p.stem)
def test_the_example_manifests_are_good(path: Path) -> None:
    assert read_build_manifest(path).name == path.stem


def test_a_relative_path_starts_at_the_manifest_and_not_at_the_current_folder(
    read: Read, good: str, manifest_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(good)
    (manifest_folder / "elsewhere").mkdir()
    monkeypatch.chdir(manifest_folder / "elsewhere")
    manifest = read_build_manifest(Path("../m.toml"))
    assert manifest.path == Path("../m.toml")
    source = manifest.weights["params"].source
    assert source is not None and source[""].path.is_file()


def test_a_mask_of_two_dimensions_has_both_in_its_shape() -> None:
    pad = Pad(fill={}, mask="m", length="", proof=())
    policies, x = {"batch": pad, "seq": pad}, InputLeaf(("batch", "seq"), DType.FLOAT32)
    hint = 'add inputs.m = { shape = ["batch", "seq"], dtype = "bool" }'
    assert [each.hint for each in check_policies(policies, (), {"x": x}, ())] == [hint] * 2
    mask = InputLeaf(("batch",), DType.BOOL)
    for each in check_policies(policies, (), {"x": x, "m": mask}, ()):
        assert each.code == "AOTC-E805" and "batch and seq" in (each.expected or "")
