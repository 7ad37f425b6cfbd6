"""A program with many entry points, as a generator of code for others would write it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from aotc.packing.weights import write_tensors

WIDTH = 64
PROFILES = (1, 4, 16, 64)
TARGETS = ("cpu-x86-64-v2", "cpu-x86-64-v3")

HEAD = '''"""Functions of the same shape and different steps."""

import jax
import jax.numpy as jnp
from jax import lax

'''

STEPS = (
    "x = jnp.tanh(x @ params['w{n}'])",
    "x = jax.nn.softmax(x * {scale}, axis=-1)",
    "x = x + jnp.sort(x, axis=-1)[:, ::-1] * {scale}",
    "x = lax.fori_loop(0, {count}, lambda i, v: jnp.sin(v) + {scale}, x)",
    "x = (x - x.mean(axis=-1, keepdims=True)) * lax.rsqrt(x.var(axis=-1, keepdims=True) + {scale})",
    "x = jnp.cumsum(x, axis=0) * {scale}",
    "x = jnp.where(x > {scale}, x, {scale} * jnp.exp(x))",
)
MATRICES = 3


def function(number: int) -> Iterator[str]:
    """The lines of a function, which has other steps than the others."""
    yield f"def f{number:03}(params, x):"
    for place in range(2 + number % 3):
        step = STEPS[(number * 3 + place * (1 + number // len(STEPS))) % len(STEPS)]
        scale = f"{0.125 + (number % 7) / 16:g}"
        text = step.format(n=(number + place) % MATRICES, scale=scale, count=3 + number % 5)
        yield f"    {text}"
    yield "    return x"
    yield ""


def entry_point(number: int) -> str:
    """Its part of the manifest."""
    return f"""
[entry_points.f{number:03}]
function = "functions:f{number:03}"
bind = {{ params = "params" }}
inputs.x = {{ shape = ["batch", {WIDTH}], dtype = "float32" }}
tolerance = {{ rtol = 1e-3, atol = 1e-4 }}

[entry_points.f{number:03}.fixtures]
seed = {number}
"""


def write(
    folder: Path,
    functions: int,
    profiles: Sequence[int] = PROFILES,
    targets: Sequence[str] = TARGETS,
) -> Path:
    """A program with so many functions, its weights and its manifest; the path of the last."""
    lines = [line for number in range(functions) for line in (*function(number), "")]
    (folder / "functions.py").write_text(HEAD + "\n".join(lines))
    chance = np.random.default_rng(0)
    weights = {
        f"w{n}": (chance.standard_normal((WIDTH, WIDTH)) / WIDTH).astype(np.float32)
        for n in range(MATRICES)
    }
    (folder / "weights.safetensors").write_bytes(write_tensors(weights, where="weights"))
    manifest = folder / "many.toml"
    sizes, names = ", ".join(map(str, profiles)), ", ".join(f'"{name}"' for name in targets)
    manifest.write_text(
        f"""schema = 1
name = "many"
version = "1.0.0"
targets = [{names}]

[weights.params]
source = "weights.safetensors"

[dimensions.batch]
range = [1, {max(profiles)}]
profiles = [{sizes}]
"""
        + "".join(map(entry_point, range(functions)))
    )
    return manifest
