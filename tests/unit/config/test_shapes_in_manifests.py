"""Tests of the values of dimensions, profiles, relations and policies."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from aotc.config.build_manifest import BuildManifest
from aotc.config.dimension_specs import MultiplesOf, Rule, sizes_of
from aotc.pipeline.scratch_folder import ProgramJob
from aotc_runtime.schema.bundle_manifest import CompileHere, Dimension, Pad, Split

Read = Callable[[str | bytes], BuildManifest]

ENCODER = """\
schema = 1
name = "encoder"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "cpu-x86-64-v4"]

[dimensions]
batch = { range = [1, 64], profiles = [8, 1] }
seq = { range = [8, 100], multiple_of = 8, profiles = "powers_of_two" }
width = { range = [1, 9] }

[entry_points.encode]
function = "encoder:encode"
relations = [" batch * seq<=256 "]
inputs.tokens = { shape = ["batch", "seq"], dtype = "int32" }
inputs.mask = { shape = ["seq"], dtype = "bool" }
inputs.length = { shape = [], dtype = "int32" }
out_of_profile.batch = "split"
out_of_profile.seq = { policy = "pad", fill = { tokens = -1 }, mask = "mask", length = "length" }

[entry_points.scale]
function = "encoder:scale"
profiles = [{ width = 4, batch = 2 }, { batch = 1, width = 9 }]
inputs.x = { shape = ["batch", "width"], dtype = "float32" }
out_of_profile.batch = { policy = "compile", meanwhile = "pad", seconds = 5 }
out_of_profile.width = "fail"

[target.cpu-x86-64-v4.dimensions.seq]
profiles = [16]

[target.cpu-x86-64-v4.entry_points.scale]
profiles = [{ batch = 3, width = 3 }]
"""


def accepting(minimum: int, maximum: int, multiple_of: int) -> Dimension:
    return Dimension(minimum=minimum, maximum=maximum, multiple_of=multiple_of)


@pytest.mark.parametrize(
    ("rule", "accepted", "sizes"),
    [
        ("powers_of_two", accepting(3, 100, 1), (4, 8, 16, 32, 64, 100)),
        ("powers_of_two", accepting(1, 64, 1), (1, 2, 4, 8, 16, 32, 64)),
        ("powers_of_two", accepting(1, 100, 24), (24, 48, 96)),
        (MultiplesOf(128), accepting(1, 500, 1), (128, 256, 384, 500)),
        (MultiplesOf(16), accepting(20, 70, 8), (32, 48, 64)),
        ((8, 1), accepting(1, 8, 1), (1, 8)),
    ],
)
def test_rules_make_sizes_in_range(rule: Rule, accepted: Dimension, sizes: tuple[int, ...]) -> None:
    assert sizes_of(rule, accepted) == sizes
    assert all(size in accepted for size in sizes)


def test_a_grid_leaves_out_what_a_relation_forbids(read: Read) -> None:
    profiles = read(ENCODER).profiles("encode", "cpu-x86-64-v3")
    pairs = [(sizes["batch"], sizes["seq"]) for sizes in profiles]
    assert pairs == [(1, 8), (1, 16), (1, 32), (1, 64), (1, 96), (8, 8), (8, 16), (8, 32)]


def test_relations_are_kept_as_bundles_write_them(read: Read) -> None:
    assert read(ENCODER).entry_points["encode"].relations == ("batch*seq <= 256",)


def test_listed_profiles_stand_for_the_grid(read: Read) -> None:
    profiles = read(ENCODER).profiles("scale", "cpu-x86-64-v3")
    assert profiles == ({"batch": 1, "width": 9}, {"batch": 2, "width": 4})


def test_a_target_has_profiles_of_its_own_and_everything_is_traced_once(read: Read) -> None:
    manifest = read(ENCODER)
    assert manifest.profiles("scale", "cpu-x86-64-v4") == ({"batch": 3, "width": 3},)
    assert manifest.profiles("encode", "cpu-x86-64-v4") == (
        {"batch": 1, "seq": 16},
        {"batch": 8, "seq": 16},
    )
    wanted = {target: manifest.executables(target) for target in manifest.targets}
    every = ProgramJob(manifest, {}, wanted).executables
    traced = [dict(key.sizes) for key in every if key.entry_point == "encode"]
    assert tuple(traced) == manifest.profiles("encode", "cpu-x86-64-v3")
    assert len([key for key in every if key.entry_point == "scale"]) == 3


def test_policies_become_values_with_their_defaults(read: Read) -> None:
    manifest = read(ENCODER)
    assert manifest.entry_points["encode"].out_of_profile == {
        "batch": Split(proof=()),
        "seq": Pad(fill={"tokens": "-1"}, mask="mask", length="length", proof=()),
    }
    plain = Pad(fill={}, mask="", length="", proof=())
    assert manifest.entry_points["scale"].out_of_profile == {
        "batch": CompileHere(most=8, seconds=5, meanwhile=plain)
    }


def test_a_table_stands_for_meanwhile_as_well(read: Read) -> None:
    text = ENCODER.replace('"pad", seconds', '{ policy = "pad", fill = { x = 1.5 } }, seconds')
    policy = read(text).entry_points["scale"].out_of_profile["batch"]
    assert isinstance(policy, CompileHere)
    assert policy == replace(policy, meanwhile=Pad(fill={"x": "1.5"}, mask="", length="", proof=()))


def test_multiples_are_part_of_what_is_accepted(read: Read) -> None:
    accepted = read(ENCODER).dimensions["seq"].accepted
    assert (accepted.smallest, accepted.largest) == (8, 96)
    assert 24 in accepted
    assert 20 not in accepted
    assert 104 not in accepted
