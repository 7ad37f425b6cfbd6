"""The build from end to end: the one file that knows every room.

manifest -> capture -> (reference | compile) -> (tune) -> parity -> pack -> attest
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from aotc import constants
from aotc.backends.registry import backend_for
from aotc.build import child, trials, tune
from aotc.build.assembler import Assembler, own
from aotc.build.build_time import stated_time, time_of_build
from aotc.build.evidence import specialized, unproven
from aotc.build.memory import over_limit
from aotc.build.plan import compile_jobs, resolve_targets, wanted_profiles
from aotc.build.policies import Proofs
from aotc.build.staged import stage
from aotc.build.staging import Staging, scratch_folder
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc.errors import raise_if
from aotc.packing.bundle import Form, TargetParts, assemble, default_path, pack, require_place
from aotc.parity import isolated
from aotc.processes import Processes
from aotc.shapes.trials import Outcome
from aotc.signing import attest as attesting
from aotc.signing.signer import Signer
from aotc.stages import Attestation, Bundle, CapturedProgram, Executable
from aotc.tuning.tuning_file import Key, Recorded, TuningFile
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import (
    BundleManifest,
    Parity,
    ParityNotRun,
    Tuned,
)

type OnStage = Callable[[str, int, int], None]
"""Progress: stage name, items done, items in all (0 if unknown)."""

type OnOutput = Callable[[str, str], None]
"""What a process that ran the user's code printed: which process, text."""


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build.

    seconds: by stage.  notes: what its user should know.  tuning_file: what was chosen, if the
    build was tuned.  diagnostics: what the compiler said, by job.
    """

    bundle: Bundle
    attestation: Attestation | None
    program: CapturedProgram
    compile_seconds: dict[str, float]
    seconds: dict[str, float]
    notes: tuple[str, ...]
    tuning_file: TuningFile | None
    diagnostics: dict[str, tuple[str, ...]]


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def build(
    manifest_path: Path,
    *,
    output: Path | None = None,
    form: Form = Form.ARCHIVE,
    targets: Sequence[str] = (),
    signer: Signer | None = None,
    jobs: int | None = None,
    on_stage: OnStage = lambda stage, done, total: None,
    on_output: OnOutput = lambda process, text: None,
    tuning: tune.Tuning | None = None,
) -> Built:
    """Build a bundle from a build manifest.

    output: where to write; NAME-VERSION.aotb in the current folder by default.  targets: instead of
    the manifest's.  signer: attests the bundle; without one it is unsigned and will not load.
    jobs: compilations at a time; the CPUs of this process by default.  on_output: gets what the
    program printed, and the traceback if it raised.  tuning: measure candidates on this host, or
    take the choices of a tuning file.
    Raises BuildManifestError, CaptureError, CompileError, ParityError, UsageError, and
    BudgetExceededError (AOTC-E973) for a profile beyond its target's memory limit. Nothing is
    written to `output` unless everything succeeded.
    """
    clock = _Clock()
    stated = stated_time(os.environ)
    manifest = read_build_manifest(manifest_path)
    path = output or default_path(manifest.name, manifest.version)
    require_place(path, form)
    names = tuple(targets) or manifest.targets
    resolved = resolve_targets(manifest, targets)
    not_tuned = tune.not_tuned(tuning, resolved)
    backends = {target.platform: backend_for(target.platform) for target in resolved}
    workers = jobs or len(os.sched_getaffinity(0))
    processes = Processes()
    with scratch_folder() as scratch:
        staging = Staging(scratch)
        with clock.stage("capture"):
            program = _capture(manifest, names, staging, processes, on_stage, on_output)
        wanted = wanted_profiles(manifest, names, resolved)
        trials.plan(manifest, program, wanted, staging)
        with clock.stage("compile"), ThreadPoolExecutor(max_workers=workers) as pool:
            reference = pool.submit(_reference, manifest, names, staging, processes, on_output)
            planned = compile_jobs(program, resolved, wanted)
            chosen: dict[Key, Tuned] = {}
            if isinstance(tuning, Recorded):
                planned, chosen = tune.replay(planned, tuning, program, staging)
            running: dict[tuple[str, str, int], Future[Executable]] = {
                key: pool.submit(backends[job.target.platform].compile, job)
                for key, job in planned.items()
            }
            try:
                executables = {}
                for done, (key, future) in enumerate(running.items(), start=1):
                    executables[key] = replace(future.result(), tuned=chosen.get(key))
                    on_stage("compile", done, len(running))
                on_stage("reference", 0, 0)
                reference.result()
            except BaseException:
                # The pool waits for its threads, and they for their processes.
                pool.shutdown(wait=False, cancel_futures=True)
                processes.stop()
                for backend in backends.values():
                    backend.stop()
                raise
        built_with = {name: backend.toolchain() for name, backend in backends.items()}
        parts = Assembler(manifest, program, built_with, staging)
        if isinstance(tuning, tune.Measure):
            with clock.stage("tune"):
                for target in resolved:
                    if target.name not in not_tuned:
                        executables |= tune.search(
                            {key: job for key, job in planned.items() if key[0] == target.name},
                            executables,
                            program,
                            staging,
                            backends[target.platform],
                            parts.of,
                            workers=workers,
                            processes=processes,
                            on_step=lambda done, total: on_stage("tune", done, total),
                        )
        unchecked = [parts.of(target, own(executables, target)) for target in resolved]
        raise_if(_over_limits(manifest, names, unchecked))
        with clock.stage("parity"):
            parities, proofs = _parity(unchecked, executables, staging, on_stage)
        with clock.stage("pack"):
            on_stage("pack", 0, 0)
            checked = [
                parts.of(
                    target,
                    own(executables, target),
                    parities[target.name],
                    proofs.get(target.name, {}),
                )
                for target in resolved
            ]
            bundle, attestation = _write(path, form, checked, manifest, program, signer, stated)
        notes = (
            *unproven(program, staging),
            *specialized(program),
            *tune.notes(not_tuned, executables),
        )
    labels = {key: f"{job.label} for {job.target.name}" for key, job in planned.items()}
    return Built(
        bundle=bundle,
        attestation=attestation,
        program=program,
        compile_seconds={labels[key]: e.compile_seconds for key, e in executables.items()},
        seconds=clock.seconds,
        notes=notes,
        tuning_file=tune.file_of(executables, planned, not_tuned) if tuning else None,
        diagnostics={labels[key]: e.diagnostics for key, e in executables.items() if e.diagnostics},
    )


def _capture(
    manifest: BuildManifest,
    targets: Sequence[str],
    staging: Staging,
    processes: Processes,
    on_stage: OnStage,
    on_output: OnOutput,
) -> CapturedProgram:
    total, done = len(manifest.entry_points), 0

    def advance(_: str) -> None:
        nonlocal done
        done += 1
        on_stage("capture", done, total)

    on_stage("capture", 0, total)
    child.run(
        "aotc.build.capture_worker",
        [str(manifest.path), str(staging.folder), *targets],
        staging.folder,
        child.clean_environment({"JAX_PLATFORMS": "cpu", constants.CONSTANTS_AS_ARGUMENTS: "1"}),
        failure_code="AOTC-E835",
        doing="the capture process",
        on_line=advance,
        on_output=lambda text: on_output("capture", text),
        processes=processes,
    )
    return staging.read_program()


def _reference(
    manifest: BuildManifest,
    targets: Sequence[str],
    staging: Staging,
    processes: Processes,
    on_output: OnOutput,
) -> None:
    child.run(
        "aotc.build.reference_worker",
        [str(manifest.path), str(staging.folder), *targets],
        staging.folder,
        child.clean_environment({"JAX_PLATFORMS": "cpu"}),
        failure_code="AOTC-E836",
        doing="plain JAX on the fixtures",
        on_line=lambda _: None,
        on_output=lambda text: on_output("reference", text),
        processes=processes,
    )


def _parity(
    parts: list[TargetParts],
    executables: Mapping[Key, Executable],
    staging: Staging,
    on_stage: OnStage,
) -> tuple[dict[str, dict[tuple[str, int], Parity]], dict[str, Proofs]]:
    """Load the staged bundle as production would."""
    staged = stage(parts, staging.folder)
    found: dict[str, dict[tuple[str, int], Parity]] = {}
    tried: dict[str, list[list[Outcome]] | None] = {}
    for done, part in enumerate(parts):
        target = part.manifest.target.name
        on_stage("parity", done, len(parts))
        outcomes = isolated.run(staged.bundle, staged.policy, target, staging.folder)
        keys = dict(zip(_profile_keys(part.manifest), _captured(executables, target), strict=True))
        found[target] = {
            captured: outcomes if isinstance(outcomes, ParityNotRun) else outcomes.fixtures[key]
            for key, captured in keys.items()
        }
        tried[target] = None if isinstance(outcomes, ParityNotRun) else outcomes.trials
    staged.bundle.unlink()
    return found, trials.judge(staging, tried)


def _over_limits(
    manifest: BuildManifest, names: Sequence[str], parts: Sequence[TargetParts]
) -> Iterator[Finding]:
    """names: the targets as written."""
    for name, part in zip(names, parts, strict=True):
        override = manifest.overrides.get(name)
        if override and override.memory_limit is not None:
            where = manifest.where("target", name, "memory_limit")
            yield from over_limit(part.manifest, override.memory_limit, where)


def _profile_keys(manifest: BundleManifest) -> list[tuple[str, int]]:
    return [
        (name, index)
        for name, entry_point in manifest.entry_points.items()
        for index in range(len(entry_point.profiles))
    ]


def _captured(executables: Mapping[Key, Executable], target: str) -> list[tuple[str, int]]:
    """The captured profiles that a target has, in the order of its manifest."""
    return sorted((name, index) for owner, name, index in executables if owner == target)


def _write(
    path: Path,
    form: Form,
    parts: list[TargetParts],
    manifest: BuildManifest,
    program: CapturedProgram,
    signer: Signer | None,
    stated: datetime | None,
) -> tuple[Bundle, Attestation | None]:
    """Write the bundle with its attestation in one step, so that no unsigned one is ever seen."""
    if signer is None:
        return pack(path, form, parts), None
    root, _ = assemble(parts)
    built = [part.manifest for part in parts]
    predicate = attesting.provenance(manifest, program, built, time_of_build(stated))
    subject = f"{manifest.name}-{manifest.version}"
    attestation = attesting.attest(root.digest, subject, predicate, signer)
    return pack(path, form, parts, [attestation.envelope]), attestation
