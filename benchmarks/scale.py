"""Cost of weights: time, memory, reads and writes of every command, by the GiB.

`python -m benchmarks.scale [--gib 0.5,1,2] [--large] [--commands build,verify,...] [--json FILE]`:
for each size, makes a safetensors file, builds a program of two entry points with it, and runs each
command in a process of its own; --large adds 8 GiB. Memory is the peak of what all processes of a
command hold together (Pss: pages that processes share count once). Slopes are between the smallest
and the largest size. `cp` of the file, and hashing it on all cores, stand beside it from the same
run: other work on the machine changes all of them, so compare within a run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from aotc.bundle.write.safetensors_writer import chunks
from benchmarks.measure import OUT, machine, verdict

GIB = 2**30
NAN = float("nan")
SIDE = 4096
TENSOR_BYTES = 4 * SIDE**2
FLOAT32 = np.dtype(np.float32)
SAMPLED_SECONDS = 0.1
FIRST, SECOND = "cpu-x86-64-v3", "cpu-x86-64-v2"

BUILD_GOAL = (1.1, 0.75)
"""GiB of memory that a build may take: for each GiB of weights, and besides."""

COMMAND_GOAL = 0.25
"""GiB of memory that any other command may take, but for `load`, which maps the weights."""

REST = "build: rest"
"""What is left of a build without plain JAX and the parity with it: Python and jax start, the
program is traced and compiled, weights are hashed, cut and packed.
"""

TIME_GOAL = 2.5
"""Times what `cp` and hashing take one after the other."""

LARGE_GIB = 8

GONE_AFTER = {
    "cp": "copy.safetensors",
    "build": "weights.safetensors",
    "extract other": "both.aotb",
}
"""What no later command needs: at most three times the weights are on the disk, and what a build or
a signature writes meanwhile.
"""

LOADS = ("load", "four loads", "verify and four forks")
NO_MEMORY_GOAL = ("cp", "hash", REST, *LOADS)
NO_TIME_GOAL = ("cp", "hash", "build", *LOADS)

PROGRAM = '''"""Two functions that use every matrix of a file."""

import jax.numpy as jnp


def first(params, x):
    for name in sorted(params):
        x = jnp.tanh(x @ params[name])
    return x


def second(params, x):
    return sum(jnp.dot(x, params[name]) for name in sorted(params))
'''

MANIFEST = f"""schema = 1
name = "scale"
version = "1.0.0"
targets = ["{FIRST}", "{SECOND}"]
[weights.params]
source = "weights.safetensors"
"""

ENTRY_POINT = """
[entry_points.{name}]
function = "program:{name}"
bind = {{ params = "params" }}
inputs.x = {{ shape = [1, {side}], dtype = "float32" }}
tolerance = {{ rtol = 1e-3, atol = 1e-3 }}

[entry_points.{name}.fixtures]
seed = 0
"""

HASH = """
import sys
from pathlib import Path
from aotc_runtime.base.digest import cores
from aotc_runtime.base.parallel_calls import map_on_threads
from cryptography.hazmat.primitives import hashes

path, step = Path(sys.argv[1]), 64 * 2**20

def piece(start):
    state = hashes.Hash(hashes.SHA256())
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        for _ in range(step // 2**20):
            state.update(file.read(2**20))
    return state.finalize()

map_on_threads(piece, range(0, path.stat().st_size, step), cores())
"""

LOAD = """
import sys
import aotc_runtime
import numpy as np

bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
bundle["first"](np.zeros((1, int(sys.argv[3])), np.float32))
"""


WORKERS = """
import os, sys
import aotc_runtime
import numpy as np

way, path, trust, side = sys.argv[1:]
if way == "verified":
    load = aotc_runtime.verify(path, trust=trust).load
else:
    load = lambda **given: aotc_runtime.load(path, trust=trust, **given)
begun, children = os.pipe(), []
for _ in range(4):
    if not (child := os.fork()):
        load(threads=1)["first"](np.zeros((1, int(side)), np.float32))
        os.close(begun[1])
        os.read(begun[0], 1)  # until all others are ready, so that all are counted together
        os._exit(0)
    children.append(child)
os.close(begun[1])
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""
"""Four workers, each of which has loaded the bundle and answered one call."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one command. peak_gib: of memory, all of its processes together."""

    seconds: float
    peak_gib: float

    def __str__(self) -> str:
        held = "" if isnan(self.peak_gib) else f", {self.peak_gib:.2f}"
        return f"{self.seconds:.1f} s{held}"


def measured(command: Sequence[str], folder: Path) -> Cost:
    """Run a command to its end. Raises SystemExit if it fails."""
    log = folder / "log"
    peak = 0
    started = time.perf_counter()
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        while process.poll() is None:
            peak = max(peak, sum(map(_pss, _tree(process.pid))))
            time.sleep(SAMPLED_SECONDS)
    seconds = time.perf_counter() - started
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {process.returncode}\n{log.read_text()[-2000:]}")
    return Cost(seconds, peak / GIB)


def _tree(root: int) -> Iterator[int]:
    """A process and all that descend from it, as they are now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has just ended
                continue
            children.setdefault(parent, []).append(int(entry.name))
    waiting = [root]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += children.get(found, [])


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    except OSError:
        return 0
    line = next((line for line in text.splitlines() if line.startswith("Pss:")), "Pss: 0 kB")
    return int(line.split()[1]) * 1024


@dataclass(frozen=True, slots=True)
class Drawn:
    """A matrix that is drawn when it is written, so that only one is in memory at a time."""

    seed: int
    dtype: np.dtype[Any] = FLOAT32
    shape: tuple[int, ...] = (SIDE, SIDE)
    nbytes: int = TENSOR_BYTES

    def chunks(self) -> Iterator[bytes]:
        """Small numbers, so that a chain of products stays within what float32 tells apart."""
        chance = np.random.default_rng(self.seed)
        yield (chance.random(self.shape, np.float32) * np.float32(1 / SIDE)).tobytes()


def prepare(folder: Path, gib: float) -> None:
    """The program, its manifest, and weights of this size."""
    tensors = {f"w{number:03}": Drawn(number) for number in range(round(gib * GIB / TENSOR_BYTES))}
    with (folder / "weights.safetensors").open("wb") as file:
        file.writelines(chunks(tensors, where="weights"))
    (folder / "program.py").write_text(PROGRAM)
    entries = "".join(ENTRY_POINT.format(name=name, side=SIDE) for name in ("first", "second"))
    (folder / "scale.toml").write_text(MANIFEST + entries)


def commands() -> dict[str, list[str]]:
    """Every command that is measured, in the order in which they need each other."""
    aotc = [sys.executable, "-P", "-m", "aotc.cli.main"]
    trust = ["--trust", "trust.toml"]
    loading = ["both.aotb", "trust.toml", str(SIDE)]
    return {
        "cp": ["cp", "weights.safetensors", "copy.safetensors"],
        "hash": [sys.executable, "-c", HASH, "weights.safetensors"],
        "build": [
            *(*aotc, "build", "scale.toml", "--key", "ci.key", "--cache", "off"),
            *("-o", "both.aotb", "--json"),
        ],
        "verify": [*aotc, "verify", "both.aotb", *trust],
        "inspect": [*aotc, "inspect", "both.aotb"],
        "load": [sys.executable, "-c", LOAD, *loading],
        "four loads": [sys.executable, "-c", WORKERS, "each", *loading],
        "verify and four forks": [sys.executable, "-c", WORKERS, "verified", *loading],
        "report": [*aotc, "report", "both.aotb", "-o", "page.html"],
        "explain": [*aotc, "explain", "both.aotb", "first", *trust],
        "compat": [*aotc, "compat", "both.aotb", *trust],
        "trust check": [*aotc, "trust", "check", "trust.toml", "both.aotb"],
        "sign": [*aotc, "sign", "both.aotb", "--key", "ci.key"],
        "extract": [*aotc, "extract", "both.aotb", "--target", FIRST, "-o", "one.aotb"],
        "extract other": [*aotc, "extract", "both.aotb", "--target", SECOND, "-o", "two.aotb"],
        "diff": [*aotc, "diff", "one.aotb", "two.aotb", "--fail-on", "none"],
        "merge": [*aotc, "merge", "one.aotb", "two.aotb", *trust, "-o", "merged.aotb"],
    }


def run(folder: Path, gib: float, wanted: Sequence[str]) -> dict[str, Cost]:
    """The cost of each wanted command with this many GiB of weights."""
    prepare(folder, gib)
    for setting_up in (
        ["keygen", "--plain", "ci"],
        ["trust", "init", "--key", "ci.pub", "--name", "scale", "--output", "trust.toml"],
    ):
        measured([sys.executable, "-P", "-m", "aotc.cli.main", *setting_up], folder)
    found: dict[str, Cost] = {}
    for name, command in commands().items():
        if name in wanted:
            found[name] = measured(command, folder)
            if name == "build":
                stages = json.loads((folder / "log").read_text())["seconds"]
                apart = stages["reference"] + stages["parity"]
                found[REST] = Cost(found[name].seconds - apart, NAN)
            if name in GONE_AFTER:
                (folder / GONE_AFTER[name]).unlink(missing_ok=True)
            os.sync()  # so that nobody pays for what another has written
            print(f"{gib:g} GiB  {name}: {found[name].seconds:.1f} s", file=sys.stderr, flush=True)
    return found


def table(found: Mapping[float, Mapping[str, Cost]]) -> Iterator[str]:
    """Yield seconds and peak memory at each size, the cost of another GiB of weights, and ratios.

    The ratios compare the times with `cp` and hashing.
    """
    sizes = sorted(found)
    least, most = sizes[0], sizes[-1]
    heads = [f"{size:g} GiB" for size in sizes]
    more = ["s per GiB", "GiB per GiB", "memory goal", "x (cp + hash)", "for another GiB"]
    yield f"| command | {' | '.join([*heads, *more])} |"
    yield "|---" * (len(heads) + len(more) + 1) + "|"

    def slope(small: float, large: float) -> float:
        return (large - small) / (most - least) if most > least else NAN

    def both(size: float) -> float:
        of = found[size]
        return sum(of[name].seconds if name in of else NAN for name in ("cp", "hash"))

    for name, large in found[most].items():
        small = found[least][name]
        cells = [str(found[size][name]) for size in sizes]
        seconds = slope(small.seconds, large.seconds)
        gib = slope(small.peak_gib, large.peak_gib)
        goal = BUILD_GOAL[0] * most + BUILD_GOAL[1] if name == "build" else COMMAND_GOAL
        memory = "" if name in NO_MEMORY_GOAL else verdict(large.peak_gib, goal)
        times = ["", ""]
        if name not in NO_TIME_GOAL:
            ratios = [large.seconds / both(most), seconds / slope(both(least), both(most))]
            times = [f"{ratio:.1f} {verdict(ratio, TIME_GOAL)}" for ratio in ratios]
        row = [name, *cells, f"{seconds:.1f}", "" if isnan(gib) else f"{gib:.2f}", memory, *times]
        yield f"| {' | '.join(row)} |"
    yield f"load average {os.getloadavg()[0]:.1f}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gib", default="1,2,4")
    options.add_argument("--large", action="store_true", help=f"{LARGE_GIB} GiB, too")
    options.add_argument("--commands", default=",".join(commands()))
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    found: dict[float, dict[str, Cost]] = {}
    for gib in [*map(float, given.gib.split(",")), *([LARGE_GIB] if given.large else [])]:
        folder = Path(tempfile.mkdtemp(prefix="scale-", dir=OUT))
        try:
            found[gib] = run(folder, gib, given.commands.split(","))
        finally:
            shutil.rmtree(folder)
    print(machine())
    print("\n".join(table(found)))
    if given.json:
        told = {str(s): {n: asdict(c) for n, c in each.items()} for s, each in found.items()}
        given.json.write_text(json.dumps(told, indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
