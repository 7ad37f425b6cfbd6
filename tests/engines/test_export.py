"""Exported models of each engine, called by the engine's own runtime."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aotc.bundle.read.bundle_review import review
from aotc.commands.export.exported_model import choose, write
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import read_policy
from tests.conftest import Once
from tests.e2e.small_programs import build_signed
from tests.engines.conftest import Other

FORMATS = {"iree": "iree", "onnxruntime": "onnx", "openvino": "openvino"}

PROGRAM = """
import jax.numpy as jnp

def init():
    return {"w": jnp.arange(-8, 8, dtype=jnp.int4).reshape(4, 4), "b": jnp.ones(4)}

def brain(x):
    return x * 2 + 1

def packed(params, x):
    return x @ params["w"].astype(jnp.float32) + params["b"]

def cached(cache, token):
    return {"cache": cache.at[token].add(1.0), "sum": cache.sum()}

def nothing(params):
    return params["b"] * 3

def scalars(a, b):
    return a * b, a > b

def named(x):
    return {"it's": x["a b"] + x['q"t'], "x/y": [x["p0"], (x["p0"] * 2,)], "none": None}

def same(x):
    return x, x
"""
MANIFEST = """
schema = 1
name = "odd"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
engines = [ENGINE]

[weights.params]
init = "program:init"

[entry_points.cached]
function = "program:cached"
donate = ["cache"]
inputs.cache = { shape = [5], dtype = "float32" }
inputs.token = { shape = [], dtype = "int32" }
fixtures.ranges = { token = [0, 4] }

[entry_points.nothing]
function = "program:nothing"
bind = { params = "params" }

[entry_points.scalars]
function = "program:scalars"
inputs.a = { shape = [], dtype = "float32" }
inputs.b = { shape = [], dtype = "float32" }

[entry_points.named]
function = "program:named"
inputs.x."a b" = { shape = [3], dtype = "float32" }
inputs.x.'q"t' = { shape = [3], dtype = "float32" }
inputs.x.p0 = { shape = [3], dtype = "float32" }

[entry_points.same]
function = "program:same"
inputs.x = { shape = [3], dtype = "bool" }
"""
FEW_BITS = {
    "brain": 'inputs.x = { shape = [2, 3], dtype = "bfloat16" }',
    "packed": 'bind = { params = "params" }\ninputs.x = { shape = [2, 4], dtype = "float32" }',
}
TAKEN = {"iree": ["brain"], "onnxruntime": [*FEW_BITS], "openvino": []}
"""Functions with narrow numbers that each engine compiles."""
NAMES = {
    "cached": (["cache", "token"], ["cache_", "sum"]),
    "nothing": ([], ["output"]),
    "scalars": (["a", "b"], ["0", "1"]),
    "named": (["x/a b", "x/p0", 'x/q"t'], ["it's", "x/y/0", "x/y/1/0"]),
    "same": (["x"], ["0", "1"]),
    "brain": (["x"], ["output"]),
    "packed": (["x"], ["output"]),
}
"""Names of inputs and outputs."""


@pytest.mark.parametrize(("entry_point", "sizes"), [("predict", {"batch": 4}), ("step", {})])
def test_an_exported_model_matches_its_fixture(
    other: Other, once: Once, tmp_path: Path, entry_point: str, sizes: dict[str, int]
) -> None:
    sums = other.sums(once)
    policy = read_policy(sums / "trust.toml")
    read = review(open_bundle(sums / "sums.aotb"), policy, datetime.now(UTC))
    document = write(choose(read, entry_point, FORMATS[other.name], sizes, None), tmp_path / "out")
    assert document["check"]["status"] == "matched"
    assert document["runtime"]["package"] == other.runtime
    assert json.loads(json.dumps(document)) == json.loads(
        (tmp_path / "out" / "signature.json").read_text()
    )
    assert {*document["files"], "signature.json"} == {f.name for f in (tmp_path / "out").iterdir()}
    names = [each["name"] for each in document["outputs"]]
    assert names == {"predict": ["row", "scores"], "step": ["0", "1"]}[entry_point]


def test_unusual_functions_match_in_the_format_of_their_engine_and_stablehlo(
    other: Other, tmp_path: Path
) -> None:
    text = MANIFEST.replace("ENGINE", other.listed)
    for name in TAKEN[other.name]:
        text += f'\n[entry_points.{name}]\nfunction = "program:{name}"\n{FEW_BITS[name]}\n'
    bundle, policy = build_signed(tmp_path, "odd", PROGRAM, text)
    read = review(open_bundle(bundle), read_policy(policy), datetime.now(UTC))
    for number, (name, names) in enumerate(NAMES.items()):
        if name in FEW_BITS and name not in TAKEN[other.name]:
            continue
        for form in (FORMATS[other.name], "stablehlo"):
            document = write(choose(read, name, form, None, None), tmp_path / f"{form}-{number}")
            stated = [[each["name"] for each in document[of]] for of in ("inputs", "outputs")]
            assert (*stated,) == names
            # numpy has no bfloat16 of its own, which IREE and the interpreter take.
            is_called = name != "brain" or form == "onnx"
            assert (document["check"]["status"] == "matched") == is_called, (name, form)
            if name == "brain":
                wanted = {"onnx": "uint16"}.get(form, "bfloat16")
                assert document["inputs"][0]["model_dtype"] == wanted
