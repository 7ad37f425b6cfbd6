"""Compiles a program with every installed engine, and measures those that take all of it."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from aotc.base.errors import CompileError
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc.pipeline import build_stages, user_processes
from aotc.pipeline.build import resolve
from aotc.pipeline.build_options import BuildOptions, Tuner
from aotc.pipeline.build_plan import REFUSALS, compile_jobs, for_engines, resolve_target
from aotc.pipeline.target_assembly import Assembler
from aotc.pipeline.task_pool import Failures
from aotc.pipeline.task_progress import OnStage
from aotc_runtime.schema.bundle_manifest import XLA, MeasuredCandidate, Target, engine_name

type Survey = dict[str, dict[str, dict[str, Any]]]
"""By engine and executable: `refused` operations, `microseconds` of a call, or `unmeasured`, which
has the reason."""


def survey(
    path: Path, target: str | None, measuring: Callable[[], Tuner], on_stage: OnStage
) -> Survey:
    """Return what every installed engine makes of a program; `measuring` makes a tuner.

    Raises the errors of `aotc.pipeline.build.build`.
    """
    manifest = read_build_manifest(path)
    name, where = target or manifest.targets[0], "--target" if target else "targets"
    known = for_engines(resolve_target(name, manifest.root, where))
    able = sorted((e for e, t in known.items() if isinstance(t, Target)), key=lambda e: e != XLA)
    options = BuildOptions(targets=[name], on_stage=on_stage)
    found = _compiled(_request(manifest, able, replace(options, keep_going=True)), options)
    if taken := [engine for engine, each in found.items() if not any(each.values())]:
        tuner = measuring()
        request = _request(manifest, taken, replace(options, tuning=tuner))
        if not request.untuned_targets:
            _measure(request, tuner, found, options)
    return found


def _request(
    manifest: BuildManifest, engines: list[str], options: BuildOptions
) -> build_stages.Request:
    """Return a build of the largest profile of each entry point by these engines."""
    overrides = {name: replace(each, engines=()) for name, each in manifest.overrides.items()}
    manifest = replace(manifest, engines=tuple(engines), overrides=overrides)
    request = resolve(manifest, options)
    profiles = manifest.executables(options.targets[0])
    by_size = sorted(profiles, key=lambda key: prod(dict(key.sizes).values()))
    largest = {key.entry_point: key for key in by_size}
    return replace(request, wanted=dict.fromkeys(request.wanted, tuple(largest.values())))


def _compiled(request: build_stages.Request, options: BuildOptions) -> Survey:
    """Compile a program with its source lines by each engine whose compiler is installed."""
    found: Survey = {}
    with build_stages.open_run(request, options) as run:
        source = build_stages.source_of(run)
        source = replace(source, job=replace(source.job, located=True))
        on, failures = (options.on_stage, options.on_output), Failures(keep_going=False)
        program = user_processes.capture(
            source, run.tasks, run.workers, lambda _: None, *on, failures
        )
        options.on_stage("compile", 0, 0)
        for target in run.by_engine(request.targets[0]):
            jobs = compile_jobs(program.entry_points.values(), [target], request.wanted)
            backend = run.compilers[target.platform]
            each = found.setdefault(engine_name(target), {})
            for job in jobs[target.name].values():
                each[job.label] = {}
                try:
                    backend.compile(job)
                except CompileError as error:
                    if error.code not in REFUSALS:
                        raise
                    told = error.findings[0].found.replace(f"{request.manifest.root}/", "")
                    each[job.label]["refused"] = told.split("; ")
    return found


def _measure(
    request: build_stages.Request, tuner: Tuner, found: Survey, options: BuildOptions
) -> None:
    """Add the time of a call by each engine of the request, compiled without source lines."""
    with build_stages.open_run(request, options) as run:
        program, compiled = build_stages.capture_and_compile(run)
        parts = Assembler(request.manifest, program, run.built_with, run.scratch, request.assets)
        tuned = build_stages.tune_targets(run, tuner, program, compiled, parts)
    for key, executable in tuned.executables[request.targets[0].name].items():
        for each in executable.tuned.candidates if executable.tuned else ():
            engine = each.name.rpartition("-")[0] or request.manifest.engines[0]
            found[engine][key.label] = (
                {"microseconds": float(each.p50_us)}
                if isinstance(each, MeasuredCandidate)
                else {"unmeasured": each.reason}
            )
