"""A process of `aotc bench`: loads a bundle with the runtime alone, and calls it.

Runs `START`. Before the clock of the import stage, only the standard library is imported.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aotc.base.workers.worker_child import Progress
    from aotc.commands.bench.bench_figures import Answer, Cold, Job, Steady, Work
    from aotc_runtime import LoadedBundle

START = (
    "import sys, time\n"
    "reached = time.monotonic()\n"
    "from aotc.commands.bench.bench_worker import main\n"
    "main(reached, sys.argv[1])\n"
)
"""What the process runs; its first argument is when it was started. On Linux, the clock is the same
in all processes.
"""

WARM_UP_PART = 0.2


def main(reached: float, spawned: str) -> None:
    """reached, spawned: when this process ran its first line, and when its parent started it."""
    started = time.monotonic()
    from aotc_runtime import load

    stages = {"interpreter": reached - float(spawned), "import": time.monotonic() - started}
    from aotc.base.workers.worker_child import answer, peak_bytes
    from aotc.commands.bench.bench_figures import Answer, Job

    def measure(job: Job, progress: Progress) -> Answer:
        loaded = load(job.bundle, trust=job.trust, target=job.target)
        timings = loaded.report()["timings"]
        stages.update((stage, taken) for stage, taken in timings.items() if stage != "total")
        if job.threads:
            steady = [*_steady(loaded, job, progress)]
            made = Answer(peak_bytes(), None, steady, loaded.report()["compilations"])
        else:
            cold = _cold(loaded, job.work[0], stages)
            made = Answer(peak_bytes(), cold)
        assert "jax" not in sys.modules, "the runtime never imports jax"
        return made

    answer(Job, measure)


def _caller(bundle: LoadedBundle, work: Work) -> Callable[[], Any]:
    """Return a server's call of one executable: numpy in, numpy out."""
    import numpy as np

    from aotc_runtime.formats.safetensors_reader import numpy_dtype
    from aotc_runtime.schema.manifest_labels import arguments_of

    callable_ = bundle[work.executable.entry_point]
    spec = callable_.spec
    leaves = []
    for file, tensor in zip(work.inputs, spec.inputs, strict=True):
        array, dtype = np.load(file, allow_pickle=False), numpy_dtype(tensor.dtype)
        # .npy files know bfloat16 and float8 only as raw bytes.
        leaves.append(array if array.dtype == dtype else array.view(dtype))
    positional, named = arguments_of(callable_.parameters, leaves)
    return lambda: callable_(*positional, **named)


def _cold(bundle: LoadedBundle, work: Work, stages: dict[str, float]) -> Cold:
    from aotc.commands.bench.bench_figures import Cold

    call = _caller(bundle, work)
    before = time.perf_counter()
    call()
    return Cold(work.executable, stages, (time.perf_counter() - before) * 1e6)


def _steady(bundle: LoadedBundle, job: Job, progress: Progress) -> Iterator[Steady]:
    from aotc.commands.bench.bench_figures import Steady

    for work in job.work:
        progress.started(work.executable.label)
        call = _caller(bundle, work)
        _latency(call, job.seconds * WARM_UP_PART)
        latency = _latency(call, job.seconds)
        throughput = [
            {"threads": n, "calls_per_second": _calls_per_second(call, n, job.seconds)}
            for n in job.threads
        ]
        yield Steady(work.executable, latency, throughput)


def _latency(call: Callable[[], Any], seconds: float) -> dict[str, int | float]:
    import numpy as np

    times: list[float] = []
    now = time.perf_counter()
    stop = now + seconds
    while now < stop or not times:
        before = now
        call()
        now = time.perf_counter()
        times.append(now - before)
    p50, p90, p99 = (float(value) for value in np.percentile(times, [50, 90, 99]) * 1e6)
    return {"p50": p50, "p90": p90, "p99": p99, "calls": len(times)}


def _calls_per_second(call: Callable[[], Any], threads: int, seconds: float) -> float:
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    together = Barrier(threads)

    def calls() -> float:
        together.wait()
        count, started = 0, time.perf_counter()
        while (now := time.perf_counter()) - started < seconds or not count:
            call()
            count += 1
        return count / (now - started)

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(calls) for _ in range(threads)]
        return sum(each.result() for each in running)
