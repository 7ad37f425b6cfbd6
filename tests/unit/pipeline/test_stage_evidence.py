"""Fixtures that prove nothing are named in the result of a build."""

import re

import pytest

from aotc.pipeline.build import Built, build
from aotc.report.build_report import build_report
from aotc.report.report_text import print_build
from tests.conftest import manifest_of

PROGRAM = """
import jax.numpy as jnp
table = jnp.arange(32.0)
def f(x):
    return {"fine": x, "partly": x.at[0].set(jnp.nan), "nan": jnp.log(-1 - x * x), "none": x[:0]}
def g(x):
    return x / 0 + table[0], jnp.int32(1)
def h(x):
    return x.astype("bfloat16") + table[:1].astype("bfloat16")
def i(ids):
    return jnp.take(table, ids), table[ids]
"""

MANIFEST = manifest_of("""
name = "program"
dimensions.n = { range = [2, 4], profiles = [2, 4] }
[entry_points.f]
function = "program:f"
inputs.x = { shape = ["n"], dtype = "float32" }
[entry_points.g]
function = "program:g"
inputs.x = { shape = [2], dtype = "float32" }
[entry_points.h]
function = "program:h"
inputs.x = { shape = [2], dtype = "float32" }
[entry_points.i]
function = "program:i"
inputs.ids = { shape = [99], dtype = "int32" }
fixtures.ranges.ids = [0, 40]
""")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(PROGRAM)
    (folder / "program.toml").write_text(MANIFEST)
    return build(folder / "program.toml", output=folder / "program.aotb")


def test_every_output_without_a_finite_value_is_named_with_its_profile(built: Built) -> None:
    named = [re.split(": |, as", note)[0] for note in built.notes]
    assert named == [
        "the fixture of f[n=2] proves nothing about nan",
        "the fixture of f[n=4] proves nothing about nan",
        "the fixture of g proves nothing about 0",
        "plain JAX gives NaN for 22 of 99 values of 0 in the fixture of i",
    ]


def test_shared_closure_array_counts_once(built: Built, capsys: pytest.CaptureFixture[str]) -> None:
    print_build(build_report(built), built.isolation, verbose=False)
    shown = capsys.readouterr().out
    assert "lifted  1 closed-over array into weights: float32[32]" in shown
    assert "weights closure: 1 tensor, " in shown
