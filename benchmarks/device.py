"""The examples on a GPU: every fixture against plain JAX's results, cold start and call overhead.

    python -m benchmarks.device                              # builds the examples here
    python -m benchmarks.device --bundles DIR                # takes DIR/*.aotb, built elsewhere
    python -m benchmarks.device --build-only --bundles DIR   # builds them, on a machine without

DIR/NAME.trust.toml is the policy of DIR/NAME.aotb. Fixtures hold what plain JAX gives on the CPU of
the machine that built. Cold start and calls are of the digits example, in turns with jax.jit on the
same device, each in a process of its own; without jax, ours alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.measure import OUT, ROOT

EXAMPLES = ("digits", "gp", "lm", "train", "vision")
BATCH = 8
CALLS = 2000

LOAD = """
import json, sys
import aotc_runtime
from aotc_runtime.base.errors import AotcError
try:
    bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2], target=sys.argv[3] or None)
except AotcError as error:
    print(json.dumps({"findings": [finding.to_json() for finding in error.findings]}))
else:
    print(json.dumps(bundle.report()))
"""

TIMED = """
import sys, time
started = time.perf_counter()
import numpy as np
image = np.random.default_rng(0).random((%d, 64), np.float32)
%s
call(image)
print(time.perf_counter() - started, flush=True)
seconds = []
for _ in range(%d):
    before = time.perf_counter()
    call(image)
    seconds.append(time.perf_counter() - before)
print(np.median(seconds) * 1e6, flush=True)
"""

OURS = """
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2], target=sys.argv[3] or None)
predict = bundle["predict"]
call = predict
"""

JIT = """
import jax
from safetensors.numpy import load_file
from digits.model import predict
params = {}
for name, tensor in load_file("digits/params.safetensors").items():
    layer, part = name.split("/")
    params.setdefault(layer, {})[part] = jax.device_put(tensor)
compiled = jax.jit(predict, static_argnames="temperature")
call = lambda image: jax.device_get(compiled(params, image, temperature=1.0))
"""


def main() -> None:
    """Build what is not there, run it, and print tables."""
    options = _options()
    folder = options.bundles or OUT / "device"
    if options.bundles is None or options.build_only:
        _build(folder, options.target or _target_of_this_device())
    if options.build_only:
        return
    facts = json.loads(_run([sys.executable, "-m", "aotc_runtime", "host-info", "--json"]))
    _print_host(facts["facts"])
    bundles = sorted(folder.glob("*.aotb"))
    print(f"\n{'profile':<34} {'max abs':>9} {'max rel':>9} {'ulp':>12}")
    for bundle in bundles:
        _print_fixtures(bundle, options.target)
    digits = folder / "digits.aotb"
    if digits.exists():
        _print_times(digits, options.target, options.rounds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device")
    parser.add_argument("--bundles", type=Path)
    parser.add_argument("--target", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build-only", action="store_true")
    return parser.parse_args()


def _target_of_this_device() -> str:
    """The known target that this machine's GPUs are for."""
    from aotc.compile.target_files import list_targets, target_of
    from aotc_runtime.engines.xla import cuda_facts as cuda
    from aotc_runtime.schema.bundle_manifest import CudaDevice

    kinds = set(cuda.detect().kinds)
    for model in list_targets(ROOT)[0].values():
        device = target_of(model).device
        if isinstance(device, CudaDevice) and kinds and kinds <= set(device.kinds):
            return model.name
    sys.exit(f"no known target for {', '.join(kinds) or 'this machine: it has no GPU'}")


def _build(folder: Path, target: str) -> None:
    from aotc.bundle.sign.signer import LocalSigner
    from aotc.bundle.trust.trust_text import policy_text
    from aotc.pipeline.build import build
    from aotc.pipeline.build_options import BuildOptions

    folder.mkdir(parents=True, exist_ok=True)
    signer = LocalSigner.ephemeral()
    for name in EXAMPLES:
        manifest = ROOT / "manifests" / f"{name}.toml"
        output = folder / f"{name}.aotb"
        built = build(manifest, output, BuildOptions(targets=[target], signer=signer))
        policy = policy_text(name, [signer.public_pem()])
        output.with_suffix(".trust.toml").write_text(policy)
        print(f"built {output} for {target}, {built.bundle.size_bytes} bytes")


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT / "manifests", check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:3])} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def _arguments(bundle: Path, target: str) -> list[str]:
    return [str(bundle.resolve()), str(bundle.with_suffix(".trust.toml").resolve()), target]


def _print_host(facts: dict[str, Any]) -> None:
    print(f"jaxlib {facts['jaxlib']} on {facts['cpu']}, {facts['os']} {facts['kernel']}")
    for each in facts["accelerators"]:
        kinds = ", ".join(each["kinds"]) or each["platform"]
        print(
            f"{each['devices']} x {kinds}, compute capability {each['compute_capability'] or '-'}"
        )
        driver = f"{each['driver_release'] or '-'} (CUDA {each['driver'] or '-'})"
        print(f"driver {driver}, plugin {each['plugin'] or '-'}")


def _print_fixtures(bundle: Path, target: str) -> None:
    report = json.loads(_run([sys.executable, "-c", LOAD, *_arguments(bundle, target)]))
    for finding in report.get("findings", ()):
        where = f"{bundle.stem} {finding['where']}"
        print(f"{where:<34} {finding['code']}: {finding['found']}, not {finding['expected']}")
    for result in report.get("fixtures", ()):
        name = f"{bundle.stem} {result['label']}"
        errors = f"{result['max_abs']:>9.1e} {result['max_rel']:>9.1e} {result['ulp_max']:>12}"
        print(f"{name:<34} {errors}")


def _print_times(bundle: Path, target: str, rounds: int) -> None:
    contestants = {"aotc_runtime": OURS} | ({"jax.jit": JIT} if find_spec("jax") else {})
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, code in contestants.items():
            program = TIMED % (BATCH, code, CALLS)
            printed = _run([sys.executable, "-c", program, *_arguments(bundle, target)]).split()
            found[name].append((float(printed[0]), float(printed[1])))
    print(f"\ndigits, batch {BATCH}, medians of {rounds} rounds in turns")
    print(f"{'':<14} {'first result':>14} {'a call':>12}")
    for name, times in found.items():
        first, call = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:<14} {first:>12.2f} s {call:>9.1f} us")


if __name__ == "__main__":
    main()
