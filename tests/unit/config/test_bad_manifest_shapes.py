"""Dimensions, profiles, relations and policies that cannot be: one spoiled manifest each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from one_finding import Bad, check_one_finding

from aotc_runtime.base.errors import Finding

ENTRY = "entry_points.predict"
DIMENSION = "dimensions.batch"
PROFILES = "profiles = [1, 8, 64]"
RANGE = "range = [1, 64]"


def policy(text: str) -> str:
    """The policy of batch, in front of the fixtures; on line 17."""
    return f"out_of_profile.batch = {text}\ntolerance"


def supplied(text: str, *inputs: str) -> str:
    """The same, behind more inputs."""
    return "".join(f"inputs.{i}\n" for i in inputs) + policy(text)


AT = f"m.toml:17 {ENTRY}.out_of_profile.batch"
BOOLS = 'mask = { shape = ["batch"], dtype = "bool" }'
COUNT = 'n = { shape = [], dtype = "int32" }'

# fmt: off
BAD: dict[str, Bad] = {
    "another rule": (
        "[1, 8, 64]", '"powers"',
        "AOTC-E805", f"m.toml:11 {DIMENSION}.profiles",
        '"powers_of_two"', '"powers" (string)', 'did you mean "powers_of_two"?',
    ),
    "another rule with a number": (
        "[1, 8, 64]", "{ multiple_of = 8 }",
        "AOTC-E803", f"m.toml:11 {DIMENSION}.profiles.multiple_of",
        "multiples_of", "multiple_of", "did you mean multiples_of?",
    ) ,
    "a rule without its number": (
        "[1, 8, 64]", "{}",
        "AOTC-E804", f"m.toml:11 {DIMENSION}.profiles.multiples_of",
        "", "", "128",
    ),
    "multiples of nothing": (
        "[1, 8, 64]", "{ multiples_of = 0 }",
        "AOTC-E805", f"m.toml:11 {DIMENSION}.profiles.multiples_of",
        "at least 1", "0 (integer)", "sizes start at 1",
    ),
    "a million profiles": (
        f"{RANGE}\n{PROFILES}", "range = [1, 1000000]\nprofiles = { multiples_of = 1 }",
        "AOTC-E805", f"m.toml:11 {DIMENSION}.profiles.multiples_of",
        "at most 1024", "[1, 1000000]", "larger steps",
    ),
    "a profile that is no multiple": (
        f"{RANGE}\n{PROFILES}", f"{RANGE}\nmultiple_of = 8\nprofiles = [8, 12]",
        "AOTC-E805", f"m.toml:12 {DIMENSION}.profiles[1]",
        "multiple_of = 8", "12", "round it",
    ),
    "a range without a multiple": (
        f"{RANGE}\n{PROFILES}", "range = [9, 15]\nmultiple_of = 8\nprofiles = [9]",
        "AOTC-E805", f"m.toml:11 {DIMENSION}.multiple_of",
        "within range = [9, 15]", "8", "widen the range",
    ),
    "steps that are no multiples": (
        f"{RANGE}\n{PROFILES}",
        f"{RANGE}\nmultiple_of = 8\nprofiles = {{ multiples_of = 12 }}",
        "AOTC-E805", f"m.toml:12 {DIMENSION}.profiles.multiples_of",
        "multiple_of = 8", "12", "round it",
    ),
    "no profiles for a grid": (
        f"{PROFILES}\n", "",
        "AOTC-E804", f"m.toml:9 {DIMENSION}.profiles",
        "", "", PROFILES,
    ),
    "a listed profile outside of the range": (
        "tolerance", "profiles = [{ batch = 65 }]\ntolerance",
        "AOTC-E805", f"m.toml:17 {ENTRY}.profiles[0].batch",
        "[1, 64]", "65", "remove the profile",
    ),
    "a listed profile of another dimension": (
        "tolerance", "profiles = [{ batch = 6, seq = 1 }]\ntolerance",
        "AOTC-E806", f"m.toml:17 {ENTRY}.profiles[0].seq",
        "batch", '"seq"', "name the dimensions",
    ),
    "a listed profile without a dimension": (
        "tolerance", "profiles = [{}]\ntolerance",
        "AOTC-E804", f"m.toml:17 {ENTRY}.profiles[0].batch",
        "", "", "add batch",
    ),
    "a listed profile twice": (
        "tolerance", "profiles = [{ batch = 6 }, { batch = 6 }]\ntolerance",
        "AOTC-E807", f"m.toml:17 {ENTRY}.profiles[1]",
        "", "batch = 6", "remove one",
    ),
    "a listed profile that a relation forbids": (
        "tolerance", 'relations = ["2*batch<=16"]\nprofiles = [{ batch = 9 }]\ntolerance',
        "AOTC-E805", f"m.toml:18 {ENTRY}.profiles[0]",
        "2*batch <= 16", "{ batch = 9 }", "remove",
    ),
    "a relation in prose": (
        "tolerance", 'relations = ["batch is small"]\ntolerance',
        "AOTC-E805", f"m.toml:17 {ENTRY}.relations[0]",
        "batch*seq <= 16384", '"batch is small"', "whole numbers",
    ),
    "a relation of nobody": (
        "tolerance", 'relations = ["bath <= 8"]\ntolerance',
        "AOTC-E806", f"m.toml:17 {ENTRY}.relations[0]",
        "one of: batch", '"bath"', "did you mean batch?",
    ),
    "relations that leave nothing": (
        "tolerance", 'relations = ["batch >= 65"]\ntolerance',
        "AOTC-E805", f"m.toml:17 {ENTRY}.relations",
        "", "3 combinations, all of which do", "widen",
    ),
    "a misspelled policy": (
        "tolerance", policy('"padd"'),
        "AOTC-E805", AT,
        '"pad"', '"padd"', "did you mean pad?",
    ),
    "a table without a policy": (
        "tolerance", policy("{ fill = {} }"),
        "AOTC-E804", f"{AT}.policy",
        "", "", 'policy = "pad"',
    ),
    "a key of another policy": (
        "tolerance", policy('{ policy = "split", mask = "m" }'),
        "AOTC-E803", f"{AT}.mask",
        "policy", "mask", "remove it",
    ),
    "a policy of no dimension": (
        "tolerance", 'out_of_profile.bath = "pad"\ntolerance',
        "AOTC-E806", f"m.toml:17 {ENTRY}.out_of_profile.bath",
        "one of: batch", '"bath"', "did you mean batch?",
    ),
    "compiling until it is compiled": (
        "tolerance", policy('{ policy = "compile", meanwhile = "compile" }'),
        "AOTC-E805", f"{AT}.meanwhile",
        '"fail", "pad", "split"', '"compile"', "",
    ),
    "no executables kept": (
        "tolerance", policy('{ policy = "compile", most = 0 }'),
        "AOTC-E805", f"{AT}.most",
        "at least 1", "0 (integer)", "sizes start",
    ),
    "a fill for no input": (
        "tolerance", policy('{ policy = "pad", fill = { imag = 0 } }'),
        "AOTC-E806", f"{AT}.fill.imag",
        "one of: image", '"imag"', "did you mean image?",
    ),
    "a fill for an input without the dimension": (
        "tolerance", supplied('{ policy = "pad", fill = { n = 0 } }', COUNT),
        "AOTC-E806", f"m.toml:18 {ENTRY}.out_of_profile.batch.fill.n",
        "one of: image", '"n"', "only arrays with the dimension",
    ),
    "a fill that is no number": (
        "tolerance", policy('{ policy = "pad", fill = { image = "zero" } }'),
        "AOTC-E805", f"{AT}.fill.image",
        "a number", '"zero"', "correct",
    ),
    "a fill that does not fit": (
        "tolerance",
        supplied('{ policy = "pad", fill = { b = 128 } }',
                 'b = { shape = ["batch"], dtype = "int8" }'),
        "AOTC-E805", f"m.toml:18 {ENTRY}.out_of_profile.batch.fill.b",
        "from -128 to 127", "128", "correct",
    ),
    "a mask that is no input": (
        "tolerance", policy('{ policy = "pad", mask = "mask" }'),
        "AOTC-E806", f"{AT}.mask",
        "one of: image", '"mask"', 'dtype = "bool"',
    ),
    "a mask of numbers": (
        "tolerance", policy('{ policy = "pad", mask = "image" }'),
        "AOTC-E805", f"{AT}.mask",
        "a bool array with batch", 'float32["batch", 64]', "name another",
    ),
    "a mask without the dimension": (
        "tolerance", supplied('{ policy = "pad", mask = "m" }',
                              'm = { shape = [4], dtype = "bool" }'),
        "AOTC-E805", f"m.toml:18 {ENTRY}.out_of_profile.batch.mask",
        "a bool array with batch", "m, bool[4]", "name another",
    ),
    "a length that is an array": (
        "tolerance", supplied('{ policy = "pad", length = "mask" }', BOOLS),
        "AOTC-E805", f"m.toml:18 {ENTRY}.out_of_profile.batch.length",
        "an int32 scalar", 'mask, bool["batch"]', "name another",
    ),
    "a mask that is donated": (
        "tolerance", supplied('{ policy = "pad", mask = "mask" }', BOOLS, 'donate = ["mask"]')
        .replace("inputs.donate", "donate"),
        "AOTC-E807", f"m.toml:19 {ENTRY}.out_of_profile.batch.mask",
        "", "donate", "donate",
    ),
    "splitting a square": (
        "tolerance", supplied('"split"', 's = { shape = ["batch", "batch"], dtype = "int8" }'),
        "AOTC-E807", f"m.toml:18 {ENTRY}.out_of_profile.batch",
        "", 's ["batch", "batch"]', "another policy",
    ),
    "profiles for a target that is not built": (
        "tolerance", "tolerance = {}\n[target.cpu-x86-64-v4.dimensions.batch]\nprofiles = [1]\n"
        "[entry_points.other]\nfunction = 'a:b'\ntolerance",
        "AOTC-E806", "m.toml:18 target.cpu-x86-64-v4",
        "one of: cpu-x86-64-v3", "cpu-x86-64-v4", "did you mean",
    ),
    "profiles of a target outside of the range": (
        "tolerance", "tolerance = {}\n[target.cpu-x86-64-v3.dimensions.batch]\nprofiles = [99]\n"
        "[entry_points.other]\nfunction = 'a:b'\ntolerance",
        "AOTC-E805", "m.toml:19 target.cpu-x86-64-v3.dimensions.batch.profiles[0]",
        "[1, 64]", "99", "widen",
    ),
    "a listed profile of a target outside of the range": (
        "tolerance",
        "tolerance = {}\n[target.cpu-x86-64-v3.entry_points.predict]\nprofiles = [{ batch = 99 }]\n"
        "[entry_points.other]\nfunction = 'a:b'\ntolerance",
        "AOTC-E805", f"m.toml:19 target.cpu-x86-64-v3.{ENTRY}.profiles[0].batch",
        "[1, 64]", "99", "widen",
    ),
}
# fmt: on


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_shapes_that_cannot_be_are_one_finding(
    spoiled: Callable[[str, str], list[Finding]], bad: Bad
) -> None:
    check_one_finding(spoiled, bad)


def test_two_dimensions_cannot_share_a_length(
    spoiled: Callable[[str, str], list[Finding]], good: str
) -> None:
    more = "[dimensions.seq]\nrange = [1, 2]\nprofiles = [2]\n\n[entry_points.predict]"
    pads = "".join(
        f'out_of_profile.{name} = {{ policy = "pad", length = "n" }}\n' for name in ("batch", "seq")
    )
    text = good.replace("[entry_points.predict]", more).replace('"batch", 64', '"batch", "seq"')
    (finding,) = spoiled(good, text.replace("tolerance", f"inputs.{COUNT}\n{pads}tolerance"))
    assert finding.code == "AOTC-E807"
    assert finding.found == "n, the length of batch"
