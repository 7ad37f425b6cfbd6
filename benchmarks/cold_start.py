"""Cold start: from process start to the first verified, correct result of digits.

`python -m benchmarks.cold_start [ROUNDS]`. Against importing jaxlib and nothing else, which is the
floor for anything that runs XLA, and against the same prediction by `jax.jit`.
"""

from __future__ import annotations

import statistics
import sys

import numpy as np

from benchmarks import bundles
from benchmarks.measure import OUT, ROOT, Contestant, in_turns, machine, paired_ratio, verdict

ROUNDS = 15

IMPORT = Contestant("import jaxlib", "import jaxlib.xla_client\nprint('imported', flush=True)")

LOAD = """
import sys
import numpy as np
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
image = np.load("../out/bench/image.npy")
label = bundle["predict"](image)["label"]
print(label, flush=True)
assert "jax" not in sys.modules and bundle.report()["compilations"] == 0
"""

JIT = Contestant(
    "jax.jit",
    """
import jax, numpy as np
from safetensors.numpy import load_file
from digits.model import predict
params = {}
for name, tensor in load_file("digits/params.safetensors").items():
    layer, part = name.split("/")
    params.setdefault(layer, {})[part] = tensor
image = np.load("../out/bench/image.npy")
compiled = jax.jit(predict, static_argnames="temperature")
label = np.asarray(compiled(params, image, temperature=1.0)["label"])
print(label, flush=True)
""",
)

GOALS = {IMPORT.name: 1.4, JIT.name: 0.25}


def main(rounds: int) -> None:
    """Measure and print."""
    measured = bundles.digits()
    images = np.load(ROOT / "manifests" / "digits" / "fixtures.npz")["image"]
    np.save(OUT / "image.npy", images[:8])
    load = Contestant("aotc_runtime", LOAD, (str(measured.bundle), str(measured.policy)))
    seconds = in_turns([IMPORT, load, JIT], rounds)
    where = ", ".join(f"{key} {value}" for key, value in machine().items())
    print(f"cold start to the first result, {rounds} rounds in turns ({where})")
    print(f"  {'':<14} {'median':>9} {'aotc_runtime is':>17} {'goal':>7}")
    for name, times in seconds.items():
        line = f"  {name:<14} {statistics.median(times) * 1000:6.0f} ms"
        if name in GOALS:
            ratio = paired_ratio(seconds[load.name], times)
            line += f" {ratio:14.2f} x {GOALS[name]:>6.2f}  {verdict(ratio, GOALS[name])}"
        print(line)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
