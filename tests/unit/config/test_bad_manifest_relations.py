"""Names that nothing has, conflicts, and files that are not there: one spoiled manifest each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from one_finding import Bad, check_one_finding

from aotc_runtime.base.errors import Finding

INPUT = '{ shape = ["batch", 64], dtype = "float32" }'
ENTRY = "entry_points.predict"
IMAGE = f"m.toml:16 {ENTRY}.inputs.image"
FIXTURES = f"m.toml:20 {ENTRY}.fixtures"

# fmt: off
BAD: dict[str, Bad] = {
    "an objective with one engine": (
        "schema = 1", 'schema = 1\nengines = ["iree"]\ntune = { objective = "start" }',
        "AOTC-E809", "m.toml:3 tune.objective",
        "several engines", "one engine", 'engines = ["iree", "xla"]',
    ),
    "a dimension nobody declared": (
        '"batch", 64', '"batch", "width"',
        "AOTC-E806", f"{IMAGE}.shape[1]",
        "one of: batch", '"width"', "declare [dimensions.width]",
    ),
    "an expression of dimensions": (
        '"batch", 64', '"batch", "64 + 1"',
        "AOTC-E806", f"{IMAGE}.shape[1]",
        "one of: batch", '"64 + 1"', "expressions are not",
    ),
    "like with an unknown dimension": (
        INPUT, '{ like = "a:b", arguments = { n = "bath" } }',
        "AOTC-E806", f"{IMAGE}.arguments.n",
        "one of: batch", '"bath"', "did you mean batch?",
    ),
    "weights nobody declared": (
        '{ params = "params" }', '{ params = "zzz" }',
        "AOTC-E806", f"m.toml:15 {ENTRY}.bind.params",
        "one of: params", '"zzz"', "declare [weights.zzz]",
    ),
    "donating an unknown input": (
        "tolerance", 'donate = ["imag"]\ntolerance',
        "AOTC-E806", f"m.toml:17 {ENTRY}.donate[0]",
        "one of: image", '"imag"', "did you mean image?",
    ),
    "donating bound weights": (
        "tolerance", 'donate = ["params"]\ntolerance',
        "AOTC-E806", f"m.toml:17 {ENTRY}.donate[0]",
        "one of: image", '"params"', "cannot be donated",
    ),
    "a range for an unknown leaf": (
        "seed = 0", "ranges = { imag = [0, 1] }",
        "AOTC-E806", f"{FIXTURES}.ranges.imag",
        "one of: image", '"imag"', "did you mean image?",
    ),
    "a target twice": (
        '["cpu-x86-64-v3"]', '["a", "b", "a"]',
        "AOTC-E807", "m.toml:4 targets[2]",
        "", '"a"', "remove one",
    ),
    "a profile twice": (
        "[1, 8, 64]", "[1, 8, 8]",
        "AOTC-E807", "m.toml:11 dimensions.batch.profiles[2]",
        "", "8", "remove one",
    ),
    "a donation twice": (
        "tolerance", 'donate = ["image", "image"]\ntolerance',
        "AOTC-E807", f"m.toml:17 {ENTRY}.donate[1]",
        "", '"image"', "remove one",
    ),
    "a key twice": (
        'name = "digits"', 'name = "digits"\nname = "other"',
        "AOTC-E807", "m.toml:3 name",
        "", "defined on line 2", "remove one",
    ),
    "a table twice": (
        "[dimensions.batch]",
        '[weights.params]\nsource = "params.safetensors"\n[dimensions.batch]',
        "AOTC-E807", "m.toml:9 weights.params",
        "", "defined on line 6", "merge them",
    ),
    "a parameter bound and passed": (
        '{ params = "params" }', '{ params = "params", image = "params" }',
        "AOTC-E807", IMAGE,
        "", "bind.image", "remove one",
    ),
    "a parameter passed and fixed": (
        "tolerance", "static = { image = 1 }\ntolerance",
        "AOTC-E807", f"m.toml:17 {ENTRY}.static.image",
        "", "inputs.image", "remove one",
    ),
    "a file and a seed": (
        "seed = 0", 'seed = 0\nfile = "fixtures.npz"',
        "AOTC-E807", f"{FIXTURES}.seed",
        "", "file and seed", "remove one",
    ),
    "recorded results of inputs that are drawn": (
        "seed = 0", 'results = "fixtures.npz"',
        "AOTC-E804", f"{FIXTURES}.results",
        "file, with the inputs of these results", "", 'add file = "inputs.npz"',
    ),
    "recorded results beside a policy": (
        f"\n\n[{ENTRY}.fixtures]\nseed = 0",
        f'\nout_of_profile = {{ batch = "pad" }}\n[{ENTRY}.fixtures]\n'
        'file = "fixtures.npz"\nresults = "fixtures.npz"',
        "AOTC-E807", f"m.toml:21 {ENTRY}.fixtures.results",
        "the policy fail for batch", "with the policy pad", "leave the policy at fail",
    ),
    "a profile outside the range": (
        "[1, 8, 64]", "[1, 8, 65]",
        "AOTC-E805", "m.toml:11 dimensions.batch.profiles[2]",
        "[1, 64]", "65", "widen the range",
    ),
    "a reversed range of sizes": (
        "[1, 64]", "[64, 1]",
        "AOTC-E805", "m.toml:10 dimensions.batch.range",
        "[smallest, largest]", "[64, 1]", "swap",
    ),
    "a reversed range of numbers": (
        "seed = 0", "ranges = { image = [2.5, 1] }",
        "AOTC-E805", f"{FIXTURES}.ranges.image",
        "[lowest, highest]", "[2.5, 1]", "swap",
    ),
    "a fraction for integers": (
        f"\n\n[{ENTRY}.fixtures]\nseed = 0",
        f'\ninputs.ids = {{ shape = [3], dtype = "int32" }}\n[{ENTRY}.fixtures]\n'
        "ranges = { ids = [0, 1.5] }",
        "AOTC-E805", f"{FIXTURES}.ranges.ids[1]",
        "ids is int32", "1.5", "without a fraction",
    ),
    "a range for booleans": (
        f"\n\n[{ENTRY}.fixtures]\nseed = 0",
        f'\ninputs.mask = {{ shape = [3], dtype = "bool" }}\n[{ENTRY}.fixtures]\n'
        "ranges = { mask = [0, 1] }",
        "AOTC-E807", f"{FIXTURES}.ranges.mask",
        "", '"bool"', "remove the range",
    ),
    "a range for random keys": (
        f"\n\n[{ENTRY}.fixtures]\nseed = 0",
        f'\ninputs.key = {{ shape = [], dtype = "key<fry>" }}\n[{ENTRY}.fixtures]\n'
        "ranges = { key = [0, 1] }",
        "AOTC-E807", f"{FIXTURES}.ranges.key",
        "", '"threefry2x32"', "remove the range",
    ),
    "a dimension nobody uses": (
        "[dimensions.batch]",
        "[dimensions.seq]\nrange = [1, 2]\nprofiles = [1]\n[dimensions.batch]",
        "AOTC-E809", "m.toml:9 dimensions.seq",
        "the shape of an input", "", "remove it",
    ),
    "weights nobody uses": (
        'bind = { params = "params" }\n', "",
        "AOTC-E809", "m.toml:6 weights.params",
        "the bind table", "", "remove it",
    ),
    "a schema of the future": (
        "schema = 1", "schema = 2",
        "AOTC-E810", "m.toml:1 schema",
        "schema = 1", "2", "use the version of aotc that the file was written ",
    ),
    "weights that are not there": (
        "params.safetensors", "gone.safetensors",
        "AOTC-E808", "m.toml:7 weights.params.source",
        "", "gone.safetensors: No such file", "correct the path",
    ),
    "a folder for weights": (
        "params.safetensors", ".",
        "AOTC-E808", "m.toml:7 weights.params.source",
        "", ".: a directory without model.safetensors.index.jso", "correct the path",
    ),
    "a null character in a path": (
        "params.safetensors", "a\\u0000b",
        "AOTC-E808", "m.toml:7 weights.params.source",
        "", "null", "correct the path",
    ),
    "results that are not there": (
        "seed = 0", 'file = "fixtures.npz"\nresults = "gone.npz"',
        "AOTC-E808", f"m.toml:21 {ENTRY}.fixtures.results",
        "", "gone.npz: No such file", "correct the path",
    ),
    "fixtures that are not there": (
        "seed = 0", 'file = "gone.npz"',
        "AOTC-E808", f"{FIXTURES}.file",
        "", "gone.npz: No such file", "correct the path",
    ),
}
# fmt: on


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_relation_is_one_finding_with_its_place_and_what_to_do(
    spoiled: Callable[[str, str], list[Finding]], bad: Bad
) -> None:
    check_one_finding(spoiled, bad)
