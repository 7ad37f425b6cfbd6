"""Estimates the cost of an entry point at some sizes, without compiling.

Run as `python -m aotc.commands.profiles.cost_probe_worker FOLDER`, for the reasons of
`aotc.pipeline.children.capture_worker`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import jax

from aotc.base.workers import confined_process
from aotc.base.workers.worker_child import Progress, answer
from aotc.capture.call_arguments import flat_call, plan_call
from aotc.capture.model_entry_points import judge_lowered, open_models
from aotc.capture.profile_trace import HOST, TracedProfile, trace_profile
from aotc.capture.traced_shardings import on_one_device
from aotc.commands.profiles.probe_messages import Answer, Job
from aotc.commands.profiles.xla_cost import cost_of_call
from aotc.config.build_manifest import BuildManifest, FixtureSpec, decode_build_manifest
from aotc.pipeline.children.user_process import begin_as_if_alone, runs_users_code
from aotc.pipeline.scratch_folder import scratch_folder


@runs_users_code
def probe(job: Job, progress: Progress) -> Answer:
    """Trace and lower the entry point at every probe. Raises CaptureError, BuildManifestError."""
    if job.limits is not None:
        confined_process.begin(job.limits)
    warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
    with scratch_folder() as scratch:
        return _probed(job, progress, scratch)


def _probed(job: Job, progress: Progress, scratch: Path) -> Answer:
    manifest = _with_random_inputs(decode_build_manifest(job.manifest), job.entry_point)
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
        if job.entry_point in models.opened:
            judge_lowered(job.entry_point, traced[-1].lowered[HOST])
        progress.finished(job.entry_point)
    return Answer([cost_of_call(each.traced, each.lowered[HOST]) for each in traced])


def _with_random_inputs(manifest: BuildManifest, entry_point: str) -> BuildManifest:
    """A manifest with drawn fixture inputs: recorded ones may be smaller than a probe."""
    spec = manifest.entry_points[entry_point]
    drawn = FixtureSpec(file=None, seed=spec.fixtures.seed, ranges=spec.fixtures.ranges)
    return replace(
        manifest,
        entry_points={**manifest.entry_points, entry_point: replace(spec, fixtures=drawn)},
    )


def prepare() -> None:
    """Nothing more than what is imported above."""


def main() -> None:
    """Do the job."""
    begin_as_if_alone()
    answer(Job, probe)


if __name__ == "__main__":
    main()
