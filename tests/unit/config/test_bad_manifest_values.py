"""Wrong keys, types and values: one spoiled manifest each, with the whole message."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from one_finding import Bad, check_one_finding

from aotc_runtime.base.errors import Finding

INPUT = '{ shape = ["batch", 64], dtype = "float32" }'
ENTRY = "entry_points.predict"
IMAGE = f"m.toml:16 {ENTRY}.inputs.image"

# fmt: off
BAD: dict[str, Bad] = {
    "an unknown key close to a known one": (
        "version", "verion",
        "AOTC-E803", "m.toml:3 verion",
        "name, version, targets", "verion", "did you mean version?",
    ),
    "an unknown key close to none": (
        "schema = 1", "schema = 1\nzzz = 2",
        "AOTC-E803", "m.toml:2 zzz",
        "one of schema", "zzz", "remove it",
    ),
    "an unknown key in an array input": (
        'dtype = "float32"', 'dtype = "float32", weak = true',
        "AOTC-E803", f"{IMAGE}.weak",
        "one of shape, dtype", "weak", "remove it",
    ),
    "no name": (
        'name = "digits"\n', "",
        "AOTC-E804", "m.toml:1 name",
        "", "", 'add it, for example name = "digits"',
    ),
    "no function": (
        'function = "digits.model:predict"\n', "",
        "AOTC-E804", f"m.toml:13 {ENTRY}.function",
        "function, source", "", "digits.model:predict",
    ),
    "no dtype": (
        ', dtype = "float32"', "",
        "AOTC-E804", f"{IMAGE}.dtype",
        "", "", INPUT,
    ),
    "a table of sources without any": (
        'source = "params.safetensors"', "source = {}",
        "AOTC-E805", "m.toml:7 weights.params.source",
        "a file, a folder, or a table of prefixes", "{}", "write source =",
    ),
    "a prefix without letters": (
        'source = "params.safetensors"', 'source = { "" = "params.safetensors" }',
        "AOTC-E805", "m.toml:7 weights.params.source",
        "a file, a folder, or a table of prefixes", "params.safetensors", "write source =",
    ),
    "a rule for names that is no regular expression": (
        'source = "params.safetensors"', 'source = "params.safetensors"\nrename = { "(" = "x" }',
        "AOTC-E805", "m.toml:8 weights.params.rename",
        "a regular expression of Python", "'(' to 'x'", "write rename =",
    ),
    "a replacement for a group that is not there": (
        'source = "params.safetensors"',
        'source = "params.safetensors"\nrename = { a = \'\\1\' }',
        "AOTC-E805", "m.toml:8 weights.params.rename",
        "a replacement for what it matches", "invalid group reference", "write rename =",
    ),
    "a list of rules for names": (
        'source = "params.safetensors"', 'source = "params.safetensors"\nrename = ["a"]',
        "AOTC-E805", "m.toml:8 weights.params.rename",
        "a table of regular expressions", '["a"]', "write rename =",
    ),
    "a dtype that weights cannot be cast to": (
        'source = "params.safetensors"', 'source = "params.safetensors"\ndtype = "int8"',
        "AOTC-E805", "m.toml:8 weights.params.dtype",
        "float32", '"int8"', "",
    ),
    "a dtype for what a function makes": (
        'source = "params.safetensors"', 'init = "digits.model:init"\ndtype = "bfloat16"',
        "AOTC-E804", "m.toml:8 weights.params.dtype",
        "source", "", "let the init function",
    ),
    "weights from nowhere": (
        'source = "params.safetensors"\n', "",
        "AOTC-E804", "m.toml:6 weights.params",
        "source", "", "init =",
    ),
    "a number for the name": (
        '"digits"\n', "3\n",
        "AOTC-E805", "m.toml:2 name",
        "a string", "3 (integer)", "quotes",
    ),
    "a string for the targets": (
        '["cpu-x86-64-v3"]', '"cpu-x86-64-v3"',
        "AOTC-E805", "m.toml:4 targets",
        "an array", "(string)", "brackets",
    ),
    "a float for a profile": (
        "[1, 8, 64]", "[1, 8.0, 64]",
        "AOTC-E805", "m.toml:11 dimensions.batch.profiles[1]",
        "an integer", "8.0 (float)", "a whole number",
    ),
    "true for a profile": (
        "[1, 8, 64]", "[true]",
        "AOTC-E805", "m.toml:11 dimensions.batch.profiles[0]",
        "an integer", "true (boolean)", "a whole number",
    ),
    "text for an input": (
        INPUT, '"float32"',
        "AOTC-E805", IMAGE,
        INPUT, '"float32" (string)', "shape and dtype",
    ),
    "text for a shape": (
        '["batch", 64]', '"batch"',
        "AOTC-E805", f"{IMAGE}.shape",
        "an array", '"batch" (string)', "brackets",
    ),
    "a fraction for an axis": (
        '["batch", 64]', '["batch", 6.5]',
        "AOTC-E805", f"{IMAGE}.shape[1]",
        "an integer of at least 0", "6.5 (float)", "size of the axis",
    ),
    "a date for a static argument": (
        "tolerance", "static = { day = 2020-01-01 }\ntolerance",
        "AOTC-E805", f"m.toml:17 {ENTRY}.static.day",
        "strings, numbers, booleans", "2020-01-01 (date or time)", "as a string",
    ),
    "a name with a space": (
        '"digits"\n', '"di gits"\n',
        "AOTC-E805", "m.toml:2 name",
        "ASCII letters", '"di gits"', "choose another name",
    ),
    "a version of two numbers": (
        '"1.0.0"', '"1.0"',
        "AOTC-E805", "m.toml:3 version",
        "three numbers", '"1.0"', "all three numbers",
    ),
    "no targets": (
        '["cpu-x86-64-v3"]', "[]",
        "AOTC-E805", "m.toml:4 targets",
        "at least one target", "[] (array)", "aotc targets list",
    ),
    "no profiles": (
        "[1, 8, 64]", "[]",
        "AOTC-E805", "m.toml:11 dimensions.batch.profiles",
        "at least one size", "[] (array)", "sizes to compile for",
    ),
    "a profile of zero": (
        "[1, 8, 64]", "[0]",
        "AOTC-E805", "m.toml:11 dimensions.batch.profiles[0]",
        "an integer of at least 1", "0 (integer)", "sizes start at 1",
    ),
    "a range of three": (
        "[1, 64]", "[1, 2, 64]",
        "AOTC-E805", "m.toml:10 dimensions.batch.range",
        "[smallest, largest]", "[1, 2, 64]", "both ends",
    ),
    "an integer of 77 bits": (
        "[1, 64]", "[1, 99999999999999999999999]",
        "AOTC-E805", "m.toml:10 dimensions.batch.range[1]",
        "2^63 - 1", "a larger integer", "correct the number",
    ),
    "a negative axis": (
        '["batch", 64]', '["batch", -1]',
        "AOTC-E805", f"{IMAGE}.shape[1]",
        "at least 0", "-1 (integer)", "size of the axis",
    ),
    "a string for true": (
        "schema = 1", 'schema = 1\nenable_x64 = "yes"',
        "AOTC-E805", "m.toml:2 enable_x64",
        "true or false", '"yes" (string)', "without quotes",
    ),
    "an unknown dtype": (
        '"float32"', '"float23"',
        "AOTC-E805", f"{IMAGE}.dtype",
        "bfloat16, float16, float32, float64", '"float23"', "as jax does",
    ),
    "an unknown dtype of keys": (
        '"float32"', '"key<threefry>"',
        "AOTC-E805", f"{IMAGE}.dtype",
        "one of key<fry>, key<rbg>, key<urbg>", '"key<threefry>"', "as jax does",
    ),
    "a dtype of 64 bits without enable_x64": (
        '"float32"', '"float64"',
        "AOTC-E805", f"{IMAGE}.dtype",
        "one of: bool, int4, int8, int16, int32, uint4, uin", '"float64"', "enable_x64 = true",
    ),
    "an input without arrays": (
        f"inputs.image = {INPUT}", f"inputs.image = {INPUT}\ninputs.mask = [{{}}]",
        "AOTC-E805", f"m.toml:17 {ENTRY}.inputs.mask",
        "at least one array", "[{}]", "remove the parameter",
    ),
    "a slash in a key of an input": (
        INPUT, f'{{ "a/b" = {INPUT} }}',
        "AOTC-E805", f'{IMAGE}."a/b"',
        "without '/'", '"a/b"', "choose another key",
    ),
    "a keyword as parameter": (
        "inputs.image", f"inputs.class = {INPUT}\ninputs.image",
        "AOTC-E805", f"m.toml:16 {ENTRY}.inputs.class",
        "no keyword", '"class"', "choose another name",
    ),
    "a function without a colon": (
        "digits.model:predict", "digits.model.predict",
        "AOTC-E805", f"m.toml:14 {ENTRY}.function",
        "package.module:function", "digits.model.predict", "one colon",
    ),
    "a negative tolerance": (
        "1e-5", "-1",
        "AOTC-E805", f"m.toml:17 {ENTRY}.tolerance.rtol",
        "at least 0", "-1 (integer)", "0 means exact",
    ),
    "a tolerance that is no number": (
        "1e-6", "nan",
        "AOTC-E805", f"m.toml:17 {ENTRY}.tolerance.atol",
        "a finite number", "nan (float)", "0 means exact",
    ),
    "a negative seed": (
        "seed = 0", "seed = -1",
        "AOTC-E805", f"m.toml:20 {ENTRY}.fixtures.seed",
        "at least 0", "-1 (integer)", "choose another",
    ),
    "an objective of no kind": (
        "schema = 1", 'schema = 1\ntune = { objective = "latncy" }',
        "AOTC-E805", "m.toml:2 tune.objective",
        "'latency', 'start' or 'memory'", '"latncy" (string)', "correct the value",
    ),
    "an unknown gate": (
        "schema = 1", "schema = 1\ngates = { max_temp = 1 }",
        "AOTC-E803", "m.toml:2 gates.max_temp",
        "one of max_artifact_size, max_executable_size", "max_temp", "mean max_temp_memory?",
    ),
    "a gate of no number of bytes": (
        "schema = 1", 'schema = 1\ngates = { max_artifact_size = "3 XB" }',
        "AOTC-E805", "m.toml:2 gates.max_artifact_size",
        "a number of bytes", '"3 XB"', "units are B, kB",
    ),
    "a gate for an unknown library": (
        "schema = 1", 'schema = 1\ngates = { forbid_libraries = ["MKL"] }',
        "AOTC-E805", "m.toml:2 gates.forbid_libraries[0]",
        "one of XLA, XLA runtime", '"MKL"', "docs/evidence.md",
    ),
    "a gate for an operation without its dialect": (
        "schema = 1", 'schema = 1\ngates = { forbid_operations = ["while"] }',
        "AOTC-E805", "m.toml:2 gates.forbid_operations[0]",
        "stablehlo.while", '"while"', "aotc inspect",
    ),
    "a coverage above all": (
        "schema = 1", "schema = 1\ngates = { min_coverage = 90 }",
        "AOTC-E805", "m.toml:2 gates.min_coverage",
        "from 0 to 1", "90", "1 is every line",
    ),
}
# fmt: on


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_value_is_one_finding_with_its_place_and_what_to_do(
    spoiled: Callable[[str, str], list[Finding]], bad: Bad
) -> None:
    check_one_finding(spoiled, bad)
