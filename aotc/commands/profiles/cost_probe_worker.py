"""`python -m aotc.commands.profiles.cost_probe_worker FOLDER`: what an entry point costs at
some sizes.

Runs in a process of its own for the reasons of `aotc.pipeline.children.capture_worker`. Nothing is
compiled unless calls are to be timed.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aotc.base.stages import Stored, Tensor
from aotc.base.workers.worker_child import Progress, answer
from aotc.capture import fixture_inputs, jax_private, jax_trees
from aotc.capture.call_arguments import flat_call, plan_call
from aotc.capture.model_entry_points import open_models
from aotc.capture.portable_stablehlo import portable
from aotc.capture.profile_trace import HOST, TracedProfile, trace_profile
from aotc.capture.traced_shardings import on_one_device
from aotc.capture.weight_sets import Weights
from aotc.commands.profiles.probe_messages import Answer, Job, Probe
from aotc.commands.profiles.xla_cost import cost_of_call
from aotc.config import manifest_values as values
from aotc.config.build_manifest import BuildManifest, FixtureSpec
from aotc.pipeline.children.user_process import begin_as_if_alone, runs_users_code
from aotc.pipeline.scratch_folder import scratch_folder

ROUNDS = 7
SECONDS_PER_TURN = 0.02


@runs_users_code
def probe(job: Job, progress: Progress) -> Answer:
    """Trace and lower the entry point at every probe. Raises CaptureError, BuildManifestError."""
    warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
    with scratch_folder() as scratch:
        return _probed(job, progress, scratch)


def _probed(job: Job, progress: Progress, scratch: Path) -> Answer:
    manifest = _with_random_inputs(values.decode(job.manifest), job.entry_point)
    models = open_models(manifest, scratch)
    manifest = models.manifest
    jax.config.update("jax_enable_x64", manifest.enable_x64)
    spec = manifest.entry_points[job.entry_point]
    weights = {name: models.load(name) for name in sorted(set(spec.bind.values()))}
    plan = replace(
        plan_call(job.entry_point, manifest, models.resolve),
        initial=models.initial(job.entry_point),
    )
    traced: list[TracedProfile] = []
    for sizes in job.sizes:
        progress.started(f"tracing {job.entry_point} at {sizes}")
        with on_one_device(manifest.mesh):
            traced.append(
                trace_profile(flat_call(plan, weights, manifest, sizes), sizes, manifest.root)
            )
        progress.finished(job.entry_point)
    seconds = [0.0] * len(traced)
    if job.measure:
        progress.started(f"measuring {job.entry_point}")
        seconds = _turns(_calls(traced, weights, manifest))
    return Answer(
        probes=[_probe(each, spent) for each, spent in zip(traced, seconds, strict=True)],
        modules={
            index: portable(jax_private.static_module(traced[index].lowered[HOST]))
            for index in job.kept
        },
    )


def _with_random_inputs(manifest: BuildManifest, entry_point: str) -> BuildManifest:
    """A manifest with drawn fixture inputs: recorded ones may be smaller than a probe."""
    spec = manifest.entry_points[entry_point]
    drawn = FixtureSpec(file=None, seed=spec.fixtures.seed, ranges=spec.fixtures.ranges)
    return replace(
        manifest,
        entry_points={**manifest.entry_points, entry_point: replace(spec, fixtures=drawn)},
    )


def _probe(traced: TracedProfile, seconds: float) -> Probe:
    cost = cost_of_call(traced.traced, traced.lowered[HOST])
    return Probe(
        sizes=traced.sizes,
        flops=cost.flops,
        transcendentals=cost.transcendentals,
        bytes_accessed=cost.bytes_accessed,
        open_loops=cost.open_loops,
        seconds=seconds,
    )


def _calls(
    traced: Sequence[TracedProfile], weights: Mapping[str, Weights], manifest: BuildManifest
) -> list[Callable[[], Any]]:
    """Return calls of plain JAX, compiled for this host; they share one copy of the weights."""
    arrays = {name: _arrays(each) for name, each in weights.items()}

    def call_of(profile: TracedProfile) -> Callable[[], Any]:
        call = profile.call
        inputs = fixture_inputs.fixture_inputs(
            call.plan,
            manifest,
            profile.sizes,
            fixture_inputs.recorded_inputs(call.plan.name, manifest),
        )
        values = [
            arrays[leaf.owner][leaf.path]
            if leaf.is_weight
            else inputs[jax_trees.join(leaf.owner, leaf.path)]
            for leaf in call.leaves
        ]
        compiled = profile.lowered[HOST].compile()
        return lambda: jax.block_until_ready(compiled(*values))

    return [call_of(each) for each in traced]


def _arrays(weights: Weights) -> dict[str, np.ndarray[Any, Any]]:
    """Read a weights set into memory. Raises OSError, CaptureError."""
    weights.fetch()
    return {path: _array(tensor) for path, tensor in weights.tensors.items()}


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    if not isinstance(tensor, Stored):
        return tensor
    return np.frombuffer(b"".join(tensor.chunks()), tensor.dtype).reshape(tensor.shape)


def _turns(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Median seconds of each call. They take turns, so that other load on the host affects all."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(ROUNDS):
        for call, mine in zip(calls, times, strict=True):
            stop = time.perf_counter() + SECONDS_PER_TURN
            while True:
                before = time.perf_counter()
                call()
                after = time.perf_counter()
                mine.append(after - before)
                if after >= stop:
                    break
    return [statistics.median(mine) for mine in times]


def prepare() -> None:
    """Nothing more than what is imported above."""


def main() -> None:
    """Do the job."""
    begin_as_if_alone()
    answer(Job, probe)


if __name__ == "__main__":
    main()
