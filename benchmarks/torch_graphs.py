"""`python -m benchmarks.torch_graphs`: our graphs for ONNX Runtime beside those that torch exports.

Both have the same weights and are run in one process, by sessions with the same options, in turns:
what differs is the graph, and how a call gets there. Needs aotc's extra `onnx`, and the loader's
`onnxruntime`; torch gets an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.compare.cases import CASES, EXAMPLES, Case, write_case
from benchmarks.compare.contestants import Contestant, python_of
from benchmarks.measure import ROOT, verdict

GOAL = 1.1
MODELS = ("encoder", "resnet")
TORCH = Contestant("torch", "torch_export", ("torch", "onnx", "onnxscript", "numpy"))
EXPORT = (
    "import sys; from pathlib import Path; from benchmarks.compare.torch_models import write_onnx; "
    "write_onnx(Path(sys.argv[1]))"
)


def main() -> None:
    """Build, export, and print the ratios of times."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.torch_graphs", description=main.__doc__
    )
    parser.add_argument("--models", default=",".join(MODELS), help=f"some of {','.join(MODELS)}")
    parser.add_argument("--batches", default="1,8", help="some of 1,8")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1, help="of each session (default 1)")
    parser.add_argument("--python", help="with torch and onnxscript, instead of an own environment")
    options = parser.parse_args()
    sys.path.insert(0, str(EXAMPLES))
    python = options.python or python_of(TORCH)
    batches = [*map(int, options.batches.split(","))]
    for case in CASES:
        if case.kind in options.models.split(",") and case.sizes["batch"] in batches:
            _prepare(case, python)
            print(json.dumps(_measure(case, options.rounds, options.threads)))


def _prepare(case: Case, python: str) -> None:
    from benchmarks.compare.peers import aotc

    write_case(case)
    manifest = case.folder / "program" / "manifest.toml"
    listed = 'targets = ["native"]\nengines = ["onnxruntime"]\n'
    manifest.write_text(manifest.read_text().replace('targets = ["native"]\n', listed))
    aotc.prepare(case.folder, "graph")
    subprocess.run([python, "-c", EXPORT, case.folder], check=True, cwd=ROOT, capture_output=True)


def _measure(case: Case, rounds: int, threads: int) -> dict[str, Any]:
    """Medians over rounds of ours divided by torch's, in processor time and in wall time."""
    import aotc_runtime

    onnxruntime: Any = import_module("onnxruntime")

    given = np.load(case.folder / "input.npy")
    expected = np.load(case.folder / "expected-0.npy")
    ours = aotc_runtime.load(
        case.folder / "graph.aotb", trust=case.folder / "graph.trust.toml", threads=threads
    )
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = threads
    chosen.add_session_config_entry("session.intra_op.allow_spinning", "0")
    path = case.folder / "torch.onnx"
    session = onnxruntime.InferenceSession(path, chosen, providers=["CPUExecutionProvider"])
    run = ours["run"]
    calls: tuple[Callable[[], Any], ...] = (
        lambda: run(given),
        lambda: session.run(None, {"input": given})[0],
    )
    apart = [float(np.max(np.abs(call() - expected))) for call in calls]
    times: list[list[tuple[float, float]]] = [[], []]
    for number in range(rounds + 1):
        for index in (0, 1) if number % 2 else (1, 0):
            measured = _timed(calls[index])
            if number:
                times[index].append(measured)
    cpu, wall = (
        statistics.median(a[kind] / b[kind] for a, b in zip(*times, strict=True)) for kind in (0, 1)
    )
    return {
        "case": case.name,
        "threads": threads,
        "processor_time": round(cpu, 3),
        "wall_time": round(wall, 3),
        "goal": f"{verdict(cpu, GOAL)} (at most {GOAL})",
        "ours_ms": round(statistics.median(t[0] for t in times[0]) * 1e3, 2),
        "apart": apart,
    }


def _timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the process and of the clock for a call, the least of three."""
    found = []
    for _ in range(3):
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        found.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(each[0] for each in found), min(each[1] for each in found)


if __name__ == "__main__":
    main()
