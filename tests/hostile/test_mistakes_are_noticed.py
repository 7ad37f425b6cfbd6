"""Mistakes in what describes, lowers and calls a program, each made in a copy of the toolchain.

A build notices every one, because plain JAX, which it compares with, shares no code with them.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import manifest_of
from tests.running import python

ROOT = Path(__file__).parents[2]

PROGRAM = """
import collections
import dataclasses

import jax
import jax.numpy as jnp

Pair = collections.namedtuple("Pair", ["low", "high"])
jax.tree_util.register_pytree_node(
    Pair, lambda p: ((p.high, p.low), None), lambda _, c: Pair(low=c[1], high=c[0])
)

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    step: object
    first: object
    second: object

TABLE = jnp.arange(40.0).reshape(10, 4)
OTHER = jnp.arange(40.0).reshape(10, 4)[::-1]

def weights():
    return {"w": jnp.arange(4.0), "v": jnp.arange(4.0)[::-1], "half": jnp.asarray(0.5)}

def state():
    return State(3, jnp.arange(4.0), jnp.arange(4.0) * 2)

def keys():
    return {"fry": jax.random.key(3), "rbg": jax.random.key(4, impl="rbg")}

def table():
    return jnp.sin(jnp.arange(2048.0)).reshape(64, 32)

def multiply(table, x):
    return x @ table

def f(params, x, /, y, state, *, z, gain=1.0, keys, mode="a", rate=3.0):
    out = params["w"] * x - params["v"] * y + z * gain * (params["half"] * jnp.ones(4, "bfloat16"))
    if mode == "b":
        out = out + 100
    out = out * rate + (TABLE - OTHER * 2)[1]
    noise = jax.random.normal(keys["fry"], (4,)) + jax.random.uniform(keys["rbg"], (4,))
    new = State(state.step + 1, state.second, state.first)
    count = state.step * jnp.ones(2, "int8")
    return Pair(out + noise, out * 2), new, {"key": keys["fry"], "count": count}
"""

MANIFEST = manifest_of("""
name = "program"
weights.params = { init = "program:weights" }

[entry_points.f]
function = "program:f"
bind = { params = "params" }
inputs.x = { shape = [4], dtype = "float32" }
inputs.y = { shape = [4], dtype = "float32" }
inputs.z = { shape = [4], dtype = "float32" }
inputs.state = { like = "program:state" }
inputs.keys = { like = "program:keys" }
static = { mode = "b", rate = 2.0 }
donate = ["state"]
tolerance = { rtol = 1e-4, atol = 1e-4 }

[weights.table]
init = "program:table"

[entry_points.multiply]
function = "program:multiply"
bind = { table = "table" }
inputs.x = { shape = [2, 64], dtype = "float32" }
precision = "small"

[precision.small]
weights = "int4"
""")


class Mistake(NamedTuple):
    """code: what the build is refused with."""

    file: str
    right: str
    wrong: str
    code: str


MISTAKES = {
    "scales are larger by a millionth": Mistake(
        "aotc/compile/precision/quantized_numbers.py",
        "np.where(scale < SCALE_MIN, np.float32(1), scale)",
        "np.where(scale < SCALE_MIN, np.float32(1), scale * np.float32(1 + 2**-20))",
        "AOTC-E959",
    ),
    "the second of two numbers is in the low half of a byte": Mistake(
        "aotc/compile/precision/quantized_numbers.py",
        "even, odd = ordered[..., ::2].astype(np.uint8), ordered[..., 1::2].astype(np.uint8)",
        "odd, even = ordered[..., ::2].astype(np.uint8), ordered[..., 1::2].astype(np.uint8)",
        "AOTC-E959",
    ),
    "a named tuple is taken field by field": Mistake(
        "aotc/capture/jax_trees.py",
        "if _is_plain_named_tuple(tree, keys, children):",
        'if isinstance(tree, tuple) and hasattr(tree, "_fields"):',
        "AOTC-E833",
    ),
    "weights have each other's names": Mistake(
        "aotc/capture/weight_sets.py",
        "made = {path or ALONE: np.asarray(leaf) for path, leaf in named}",
        "made = {p or ALONE: np.asarray(x) for (p, _), (_, x) in zip(named, named[::-1])}",
        "AOTC-E959",
    ),
    "Python numbers are strongly typed": Mistake(
        "aotc/capture/jax_trees.py",
        "aval.dtype, weak_type=aval.weak_type)",
        "aval.dtype)",
        "AOTC-E953",
    ),
    "parameters have each other's names": Mistake(
        "aotc/capture/traced_entry_points.py",
        "            name=parameter,\n",
        '            name={"y": "z", "z": "y"}.get(parameter, parameter),\n',
        "AOTC-E959",
    ),
}


def build(folder: Path, mistake: Mistake | None) -> subprocess.CompletedProcess[str]:
    """Build the program with a copy of the toolchain in which a mistake was made."""
    for part in ("aotc", "runtime/aotc_runtime", "targets"):
        # With what Python has compiled, which it takes for files of the same size and time only.
        shutil.copytree(ROOT / part, folder / part)
    if mistake is not None:
        file = folder / mistake.file
        text = file.read_text("utf-8")
        assert text.count(mistake.right) == 1, "the mistake cannot be made any more: mend the table"
        file.write_text(text.replace(mistake.right, mistake.wrong), "utf-8")
    (folder / "program.py").write_text(PROGRAM)
    (folder / "program.toml").write_text(MANIFEST)
    paths = [str(folder), str(folder / "runtime")]
    command = ("-P", "-m", "aotc.cli.main", "build", "program.toml", "-o", "x.aotb")
    return python(*command, folder=folder, PYTHONPATH=os.pathsep.join(paths))


def test_without_a_mistake_the_program_builds(tmp_path: Path) -> None:
    done = build(tmp_path, None)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_build_notices_that(mistake: Mistake, tmp_path: Path) -> None:
    done = build(tmp_path, mistake)
    assert mistake.code in done.stderr, done.stdout + done.stderr
