"""Measures a bundle as a server would run it: fresh processes with the runtime alone."""

import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from aotc.base.child_processes import Processes
from aotc.base.errors import refusal
from aotc.base.workers import worker_parent
from aotc.base.workers.worker_environment import inherit
from aotc.commands.bench.bench_figures import Answer, Cold, Job, Steady, Work
from aotc.commands.bench.bench_worker import START
from aotc.report.sizes_report import parse_profile
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.manifest_labels import executable_key, label
from aotc_runtime.serving.serving_refusals import no_entry_point
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import verify
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.verify_bundle import VerifiedBundle

COLD_STARTS_MIN = 6
COLD_STARTS_PER_EXECUTABLE = 3
LINES_SHOWN = 12

OnStage = Callable[[str, int, int], None]


def measure(
    bundle: Path,
    entry_point: str | None,
    trust: Path,
    *,
    target: str | None,
    profile: str | None,
    threads: int,
    seconds: float,
    on_stage: OnStage,
) -> dict[str, Any]:
    """Measure, and return the document that `aotc bench --json` prints.

    entry_point, profile: None for all of them. threads: the most caller threads. seconds: of calls
    per measurement. Raises what `aotc_runtime.load` and a call raise; UsageError (AOTC-E014) for a
    profile the bundle does not have; BackendError (AOTC-E759) if a measuring process dies.
    """
    facts = detect_all()
    verified = verify(open_bundle(bundle), read_policy(trust), facts, time.time(), target)
    manifest = verified.manifest
    with tempfile.TemporaryDirectory(prefix="aotc-bench-") as folder:
        work = list(_work(verified, entry_point, profile, Path(folder)))
        job = Job(str(bundle), str(trust), manifest.target.name, work, seconds, [])
        starts = []
        rounds = max(COLD_STARTS_MIN, COLD_STARTS_PER_EXECUTABLE * len(work))
        for number in range(-1, rounds):
            answer = _run(replace(job, work=[work[number % len(work)]]), Path(folder))
            # The first process also reads files that later ones find in memory.
            if number >= 0:
                starts.append(answer)
            on_stage("cold start", number + 1, rounds)
        begun = count(1)
        run = _run(
            replace(job, threads=thread_counts(threads)),
            Path(folder),
            lambda executable: on_stage("steady", next(begun), len(work)),
        )
    return _document(verified, starts, run, seconds)


def thread_counts(most: int) -> list[int]:
    """1, 2, 4 … and the most itself."""
    counts = [1]
    while counts[-1] * 2 < most:
        counts.append(counts[-1] * 2)
    return counts if most == 1 else [*counts, most]


def _work(
    verified: VerifiedBundle, entry_point: str | None, profile: str | None, folder: Path
) -> Iterator[Work]:
    manifest = verified.manifest
    if entry_point is not None and entry_point not in manifest.entry_points:
        where = f"{manifest.name} {manifest.version}"
        raise no_entry_point(where, entry_point, manifest.entry_points)
    wanted = parse_profile(profile) if profile is not None else {}
    count = 0
    for name, spec in manifest.entry_points.items():
        for record in spec.profiles:
            if entry_point not in (None, name) or not wanted.items() <= record.sizes.items():
                continue
            views = tensor_views(verified.blob(record.fixture).data, f"fixture {name}")
            files = []
            for index, tensor in enumerate(spec.inputs):
                files.append(str(folder / f"{count}-{index}.npy"))
                np.save(files[-1], views[f"inputs/{tensor.path}"][0])
            yield Work(executable_key(name, record.sizes), files)
            count += 1
    if not count:
        raise _no_profile(manifest, entry_point, str(profile))


def _no_profile(manifest: BundleManifest, entry_point: str | None, text: str) -> Exception:
    asked = {n: e for n, e in manifest.entry_points.items() if entry_point in (None, n)}
    known = {dimension for spec in asked.values() for dimension in spec.dimensions}
    unknown = next(iter(sorted(parse_profile(text).keys() - known)), None)
    there = ", ".join(label(n, p.sizes) for n, spec in asked.items() for p in spec.profiles)
    where, cause = f"--profile {text}", "profile-not-found"
    found = f"unknown dimension {unknown}" if unknown else ""
    hint = did_you_mean(unknown, known, "choose a profile that `aotc inspect` lists")
    return refusal("AOTC-E014", where, found, cause=cause, expected=f"one of: {there}", hint=hint)


def _run(
    job: Job, folder: Path, on_started: Callable[[str], None] = worker_parent.ignore_text
) -> Answer:
    """Return a worker's answer. Raises what it refused, or BackendError (AOTC-E759)."""
    try:
        return worker_parent.run(
            [sys.executable, "-c", START, str(time.monotonic())],
            job,
            Answer,
            within=folder,
            # What is measured is the bundle as it is.
            environment=inherit(without=("XLA_",)),
            processes=Processes(),
            on_started=on_started,
        )
    except worker_parent.CrashedError as crash:
        raise crash.refusal("AOTC-E759", "the process that measures", LINES_SHOWN) from crash


def _document(
    verified: VerifiedBundle, starts: Sequence[Answer], run: Answer, seconds: float
) -> dict[str, Any]:
    manifest = verified.manifest
    facts = detect()
    colds = [start.cold for start in starts if start.cold is not None]
    stages = {stage: [cold.stages[stage] for cold in colds] for stage in colds[0].stages}
    peaks = [start.peak_bytes for start in starts if start.peak_bytes is not None]
    return {
        "bundle": f"{manifest.name} {manifest.version}",
        "root_digest": verified.root_digest,
        "target": manifest.target.name,
        "machine": {
            "processor": facts.cpu,
            "cores": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "jaxlib": facts.jaxlib,
        },
        "seconds": seconds,
        "cold_start": {
            "processes": len(colds),
            "stages": {name: statistics.median(times) for name, times in stages.items()},
            "first_call": statistics.median(cold.first / 1e6 for cold in colds),
            "total": statistics.median(
                sum(cold.stages.values()) + cold.first / 1e6 for cold in colds
            ),
        },
        "executables": [_executable(steady, colds) for steady in run.steady],
        "peak_memory_bytes": {"first_result": max(peaks, default=None), "measured": run.peak_bytes},
        "compilations": run.compilations,
    }


def _executable(steady: Steady, colds: Sequence[Cold]) -> dict[str, Any]:
    key = steady.executable
    return {
        "label": key.label,
        "entry_point": key.entry_point,
        "sizes": dict(key.sizes),
        "first_call_us": statistics.median(c.first for c in colds if c.executable == key),
        "steady_us": steady.latency,
        "throughput": steady.throughput,
    }
