"""A process of one peer, in that peer's environment: makes its artifact, or serves it once.

Runs `START`. Needs the standard library, and after the peer's own import numpy.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from benchmarks.compare.peers import Peer

START = (
    "import sys, time\n"
    "reached = time.monotonic()\n"
    "from benchmarks.compare.worker import main\n"
    "main(reached, *sys.argv[1:])\n"
)

RTOL, ATOL = 1e-3, 1e-4
WARM_UP_PART = 0.3

BOUND_BY_MEMORY = "decode"
PIECE = 32 * 1024
"""Numbers of 8 bytes: a piece and the buffer it goes to fit into a core's own cache."""
READS = 15


def main(reached: float, spawned: str, mode: str, peer: str, case: str, seconds: str) -> None:
    """Print one JSON document as the last line."""
    started = time.monotonic()
    module = cast(Peer, importlib.import_module(f"benchmarks.compare.peers.{peer}"))
    folder = Path(case)
    if mode == "prepare":
        files = module.prepare(folder)
        document: dict[str, Any] = {
            "seconds": time.monotonic() - started,
            "artifact_bytes": sum(file.stat().st_size for file in files),
            "version": module.version(),
        }
    else:
        stages = {"interpreter": reached - float(spawned)}
        document = _serve(module, folder, float(seconds), stages, started)
    print(json.dumps(document))


def _serve(
    module: Peer, case: Path, seconds: float, stages: dict[str, float], started: float
) -> dict[str, Any]:
    module.imports()
    stages["import"] = time.monotonic() - started
    started = time.monotonic()
    call = module.load(case)
    stages["load"] = time.monotonic() - started

    import numpy as np

    from aotc.base.workers.worker_child import peak_bytes

    given = np.load(case / "input.npy")
    started = time.monotonic()
    result = call(given)
    stages["first call"] = time.monotonic() - started
    peak = peak_bytes()
    return {
        "stages": stages,
        "peak_bytes": peak,
        **_compared(module.leaves(result), case),
        **_latency(call, given, seconds),
        **bandwidth(case, call, given),
    }


def bandwidth(case: Path, call: Callable[[Any], Any], given: Any) -> dict[str, float]:
    """For a case bound by memory: the time of reading as much, divided by that of a call, in turns.

    What is read is copied piece by piece into a buffer that stays in the cache, on all cores.
    """
    if not case.name.startswith(BOUND_BY_MEMORY):
        return {}
    import os
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    with np.load(case / "weights.npz") as weights:
        size = sum(weights[name].nbytes for name in weights.files)
    cores = os.cpu_count() or 1
    parts = np.ones(size // 8 // PIECE * PIECE, np.float64).reshape(-1, PIECE)

    def copy(rows: Any) -> None:
        into = np.empty(PIECE)
        for row in rows:
            np.copyto(into, row)

    def once(pool: ThreadPoolExecutor) -> float:
        started = time.perf_counter()
        list(pool.map(copy, np.array_split(parts, cores)))
        read = time.perf_counter()
        call(given)
        return (read - started) / (time.perf_counter() - read)

    with ThreadPoolExecutor(cores) as pool:
        return {"bandwidth_part": statistics.median(once(pool) for _ in range(READS))}


def _compared(actual: Any, case: Path) -> dict[str, Any]:
    import numpy as np

    expected = [np.load(case / f"expected-{index}.npy") for index in range(len(actual))]
    complete = not (case / f"expected-{len(actual)}.npy").exists()
    same = complete and all(
        a.dtype == e.dtype and a.shape == e.shape and np.allclose(a, e, RTOL, ATOL)
        for a, e in zip(actual, expected, strict=True)
    )
    errors = [
        float(np.max(np.abs(a.astype(np.float64) - e)))
        for a, e in zip(actual, expected, strict=True)
        if a.shape == e.shape
    ]
    return {"correct": same, "max_abs_error": max(errors, default=0.0)}


def _latency(call: Callable[[Any], Any], given: Any, seconds: float) -> dict[str, Any]:
    times: list[float] = []
    now = time.perf_counter()
    warm, stop = now + seconds * WARM_UP_PART, now + seconds * (1 + WARM_UP_PART)
    while now < stop or len(times) < 2:
        before = now
        call(given)
        now = time.perf_counter()
        if before >= warm:
            times.append((now - before) * 1e6)
    return {"p50": statistics.median(times), "p90": statistics.quantiles(times, n=10)[8]}


if __name__ == "__main__":
    main(time.monotonic(), *sys.argv[1:])
