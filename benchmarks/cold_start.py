"""Cold start: from process start to the first verified, correct result of digits.

`python -m benchmarks.cold_start [ROUNDS]`. On XLA against importing jaxlib and nothing else, which
is the floor for anything that runs XLA, and against the same prediction by `jax.jit`; on ONNX
Runtime and IREE, where they are installed, against the engine's own process with the model of
`benchmarks.compare`, which is neither verified nor has more than one size.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

import numpy as np

from benchmarks import bundles
from benchmarks.compare.peers.aotc_tuned import is_there
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

PEER = """
import sys
import numpy as np
from benchmarks.compare.peers import {name} as peer
from pathlib import Path
call = peer.load(Path(sys.argv[1]))
print(peer.leaves(call(np.load("../out/bench/image.npy"))), flush=True)
"""

GOALS = {IMPORT.name: 1.35, JIT.name: 0.25}
ENGINES = {"onnxruntime": ("onnx", "onnxruntime"), "iree": ("iree.compiler", "iree.runtime")}


def main(rounds: int) -> None:
    """Measure and print."""
    where = ", ".join(f"{key} {value}" for key, value in machine().items())
    print(f"cold start to the first result, {rounds} rounds in turns ({where})")
    print(f"  {'':<14} {'median':>9} {'aotc_runtime is':>17} {'goal':>7}")
    measure(rounds, "xla", [IMPORT, JIT])
    for engine, packages in ENGINES.items():
        if all(map(is_there, packages)):
            measure(rounds, engine, [peer_of(engine)])


def peer_of(engine: str) -> Contestant:
    """Return an engine's own process."""
    from importlib import import_module

    from benchmarks.compare.cases import Case, write_case

    sys.path.insert(0, str(ROOT / "manifests"))
    case = Case("mlp", {"batch": 8})
    write_case(case)
    import_module(f"benchmarks.compare.peers.{engine}").prepare(case.folder)
    code = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n" + PEER.format(name=engine)
    return Contestant(engine, code, (str(case.folder),))


def measure(rounds: int, engine: str, peers: Sequence[Contestant]) -> None:
    """Measure a bundle of digits against peers, and print a line for each."""
    measured = bundles.digits(engine)
    images = np.load(ROOT / "manifests" / "digits" / "fixtures.npz")["image"]
    np.save(OUT / "image.npy", images[:8])
    load = Contestant("aotc_runtime", LOAD, (str(measured.bundle), str(measured.policy)))
    seconds = in_turns([load, *peers], rounds)
    for name, times in seconds.items():
        line = f"  {name:<14} {statistics.median(times) * 1000:6.0f} ms"
        if name != load.name:
            goal = GOALS.get(name, 1.0)
            ratio = paired_ratio(seconds[load.name], times)
            line += f" {ratio:14.2f} x {goal:>6.2f}  {verdict(ratio, goal)}"
        print(line)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
