"""Resident memory of a loaded bundle with one profile, and with six of the same weights.

`python -m benchmarks.profiles_memory [ENGINE ...]`. An encoder of four layers with 50 MB of weights
is built for each engine, loaded in a process of its own and called once with each profile.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from benchmarks.bundles import Measured
from benchmarks.measure import OUT, verdict

GOAL = 1.25
ENGINES = ("xla", "onnxruntime", "openvino", "iree")
SIZES = {1: "16", 6: "1, 2, 4, 8, 12, 16"}

MODEL = """
import jax
import jax.numpy as jnp

WIDTH, LAYERS = 512, 4


def init():
    keys = iter(jax.random.split(jax.random.key(0), 6 * LAYERS))
    shapes = [(WIDTH, WIDTH)] * 4 + [(WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    return {
        f"layer_{number}": [jax.random.normal(next(keys), s) / s[0] ** 0.5 for s in shapes]
        for number in range(LAYERS)
    }


def normalized(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def encode(params, tokens):
    x = tokens
    for number in range(LAYERS):
        query, key, value, out, up, down = params[f"layer_{number}"]
        y = normalized(x)
        scores = (y @ query) @ jnp.swapaxes(y @ key, -1, -2) / WIDTH**0.5
        x = x + jax.nn.softmax(scores) @ (y @ value) @ out
        x = x + jax.nn.relu(normalized(x) @ up) @ down
    return x
"""

MANIFEST = """
schema = 1
name = "memory"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
engines = ["{engine}"]

[weights.params]
init = "memory_model:init"

[dimensions.length]
range = [1, 16]
profiles = [{sizes}]

[entry_points.encode]
function = "memory_model:encode"
bind = {{ params = "params" }}
inputs.tokens = {{ shape = [1, "length", 512], dtype = "float32" }}
tolerance = {{ rtol = 1e-3, atol = 1e-3 }}
numerics = "finite"

[entry_points.encode.fixtures]
seed = 0
"""

LOAD = """
import sys
import numpy as np
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
encode = bundle["encode"]
for record in encode.spec.profiles:
    encode(np.ones(record.input_shapes[0], np.float32))
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmRSS")).split()[1])
"""


def main(engines: list[str]) -> None:
    """Measure and print."""
    for engine in engines:
        megabytes = {count: resident(bundle_of(engine, count)) for count in SIZES}
        ratio = megabytes[6] / megabytes[1]
        print(
            f"{engine:<12} {megabytes[1]:5.0f} MB, with six profiles {megabytes[6]:5.0f} MB:"
            f" {ratio:.2f} x, goal {GOAL}, {verdict(ratio, GOAL)}",
            flush=True,
        )


def bundle_of(engine: str, profiles: int) -> Measured:
    """Build the encoder with an engine and a number of profiles."""
    folder = OUT / "memory" / f"{engine}-{profiles}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory_model.py").write_text(MODEL)
    text = MANIFEST.format(engine=engine, sizes=SIZES[profiles])
    (folder / "memory.toml").write_text(text)
    measured = Measured(folder / "memory.aotb", folder / "memory.trust.toml")
    signer = LocalSigner.ephemeral()
    build(folder / "memory.toml", measured.bundle, BuildOptions(signer=signer))
    measured.policy.write_text(policy_text("memory", [signer.public_pem()]))
    return measured


def resident(measured: Measured) -> float:
    """Return the resident megabytes of a process that has loaded and called a bundle."""
    command = [sys.executable, "-c", LOAD, str(measured.bundle), str(measured.policy)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path("/"))
    return int(done.stdout) / 1024


if __name__ == "__main__":
    main(sys.argv[1:] or [*ENGINES])
