"""Measures the processor time of small calls: `python -m benchmarks.calls`.

Each engine's bundle and a session of ONNX Runtime take turns in one process
(benchmarks/RESULTS.md). Wall time says little of a call of 10 us while other work runs; processor
time does. Run it on one core (`taskset -c 1`), in an environment with the extras iree, onnx and
openvino.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.compare.cases import CASES, EXAMPLES, Case, write_case
from benchmarks.compare.peers import aotc, onnxruntime
from benchmarks.compare.peers.aotc_tuned import engines

CALLS = 300
SESSION = "session"
SMALL = ("mlp-batch1", "mlp-batch8", "trivial")


def main() -> None:
    """Build each case with each engine, take turns, and print microseconds and ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=main.__doc__)
    parser.add_argument("--cases", default=",".join(SMALL), help=f"by default {','.join(SMALL)}")
    parser.add_argument("--turns", type=int, default=40, help="of each, 300 calls (default 40)")
    options = parser.parse_args()
    wanted = options.cases.split(",")
    for case in (each for each in CASES if each.name in wanted):
        print(f"{case.name:16}{'us':>8}{'of a session':>16}")
        for name, least, ratio in _measured(case, options.turns):
            print(f"  {name:14}{least:8.2f}{ratio:16.2f}")


def _measured(case: Case, turns: int) -> Sequence[tuple[str, float, float]]:
    """By name: the least processor time of a call, and the median ratio to the session's turn."""
    with ProcessPoolExecutor(1, get_context("spawn")) as child:
        child.submit(_prepare, case).result()
    calls = {SESSION: onnxruntime.load(case.folder)}
    calls |= {engine: aotc.load(case.folder, engine) for engine in engines()}
    given, times = np.load(case.folder / "input.npy"), {name: [0.0] * 0 for name in calls}
    for number in range(turns + 1):
        for name in [*calls] if number % 2 == 0 else [*calls][::-1]:
            taken = _turn(calls[name], given)
            if number:
                times[name].append(taken)
    ratios = {
        name: statistics.median(a / b for a, b in zip(each, times[SESSION], strict=True))
        for name, each in times.items()
    }
    return [(name, min(each), ratios[name]) for name, each in times.items()]


def _prepare(case: Case) -> None:
    """Make the graph and the bundles. Imports jax, beside which XLA's calls are others."""
    sys.path.insert(0, str(EXAMPLES))
    write_case(case)
    onnxruntime.prepare(case.folder)
    program = case.folder / "program"
    text = (program / "manifest.toml").read_text()
    for engine in engines():
        listed = f'targets = ["native"]\nengines = ["{engine}"]\n'
        (program / f"{engine}.toml").write_text(text.replace('targets = ["native"]\n', listed))
        aotc.prepare(case.folder, engine, manifest=f"{engine}.toml")


def _turn(call: Callable[[Any], Any], given: Any) -> float:
    """Microseconds of a call."""
    started = time.process_time_ns()
    for _ in range(CALLS):
        call(given)
    return (time.process_time_ns() - started) / CALLS / 1e3


if __name__ == "__main__":
    main()
