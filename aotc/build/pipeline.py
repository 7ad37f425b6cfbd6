"""The build from end to end: the one file that knows every room.

manifest -> capture -> (reference | compile) -> (tune) -> parity -> pack -> attest
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from aotc.backends.protocol import Backend
from aotc.build import capturing, gates, trials
from aotc.build.assembler import Assembler, own
from aotc.build.backends import backends_for
from aotc.build.build_time import stated_time, time_of_build
from aotc.build.capturing import OnOutput, Source
from aotc.build.checking import Checking, captured_profiles
from aotc.build.compiling import Compiling
from aotc.build.distributed.places import compilers
from aotc.build.evidence import never_split, specialized, unproven
from aotc.build.materials import builder_id, gather
from aotc.build.memory_limits import exceeded
from aotc.build.plan import compile_jobs, resolve_targets, wanted_profiles
from aotc.build.staging import Staging, scratch_folder
from aotc.build.tasks.failures import Failures
from aotc.build.tasks.history import open_tasks
from aotc.build.tasks.meter import Meter, OnStage
from aotc.build.tasks.workers import Workers
from aotc.build.tuning import tune, tune_search
from aotc.build.writing import write_bundle
from aotc.cache.keys import Kind, Task
from aotc.cache.store import Cache
from aotc.cache.tasks import ALWAYS, Done, OnDone
from aotc.config.build_manifest import read_build_manifest
from aotc.packing.bundle import Form, TargetParts, default_path, require_place
from aotc.packing.places import require_apart
from aotc.signing.signer import Signer
from aotc.stages import Attestation, Bundle, CapturedProgram, CompileJob, Executable
from aotc.tuning.tuning_file import Key, Recorded, TuningFile
from aotc_runtime.schema.manifest import BuiltWith, Target, Tuned

type BeforePacking = Callable[[Sequence[TargetParts]], None]


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build.

    sbom: CycloneDX JSON, if it was made.  seconds: by stage; `compile` and
    `reference` run beside each other.  notes: what its user should know.
    tuning_file: what was chosen, if the build was tuned.  diagnostics: what the compiler said, by
    job.  tasks: which were run and why, and which were not.  compared: with which earlier build, in
    words.
    """

    bundle: Bundle
    attestation: Attestation | None
    sbom: bytes | None
    program: CapturedProgram
    compile_seconds: dict[str, float]
    seconds: dict[str, float]
    notes: tuple[str, ...]
    tuning_file: TuningFile | None
    diagnostics: dict[str, tuple[str, ...]]
    tasks: tuple[Done, ...]
    compared: str


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
    cache: Cache | None = None,
    keep_going: bool = False,
    on_done: OnDone = lambda done: None,
    builder: str | None = None,
    with_sbom: bool = False,
    before_packing: BeforePacking | None = None,
    executor: Executor | None = None,
    beside: Sequence[Path] = (),
) -> Built:
    """Build a bundle from a build manifest.

    output: where to write; NAME-VERSION.aotb in the current folder by default.  targets: instead of
    the manifest's.  signer: attests the bundle; without one it is unsigned and will not load.
    jobs: compilations at a time; the CPUs of this process by default.  on_output: gets what the
    program printed, and the traceback if it raised.  tuning: measure candidates on this host, or
    take the choices of a tuning file.  cache: what earlier builds made, none by default.
    keep_going: after a failure, build what does not need it, and raise all findings in the end.
    on_done: told of each task that ended, from whatever thread.  builder: the URI that provenance
    names.  with_sbom: make the bill of materials even if nobody signs it.  before_packing: gets
    what is about to be written; what it raises ends the build.  executor: whose workers
    compile, instead of this host; it is the caller's to shut down.  beside: other files that the
    caller will write.
    Raises BuildManifestError, CaptureError, CompileError, ParityError, UsageError, and
    BudgetExceededError: AOTC-E973 a profile beyond its target's memory limit, E975 a gate of the
    manifest. Nothing is written to `output` unless everything succeeded.
    """
    clock = _Clock()
    stated = stated_time(os.environ)
    started = time_of_build(None)
    builder = builder_id(builder)
    manifest = read_build_manifest(manifest_path)
    path = output or default_path(manifest.name, manifest.version)
    require_place(path, form)
    require_apart(path, beside)
    names = tuple(targets) or manifest.targets
    resolved = resolve_targets(manifest, targets)
    not_tuned = tune.not_tuned(tuning, resolved)
    wanted = wanted_profiles(manifest, names, resolved)
    failures = Failures(keep_going=keep_going)
    meter = Meter(on_stage, on_done)
    with (
        open_tasks(cache, manifest.path, manifest.name, meter.done) as (tasks, compared),
        scratch_folder() as scratch,
        Workers(jobs or len(os.sched_getaffinity(0))) as workers,
        ExitStack() as stack,
    ):
        staging = Staging(scratch)
        backends = backends_for(resolved, failures)
        # The others have failed, and what does not need them goes on.
        buildable = [target for target in resolved if target.platform in backends]
        workers.also_stop([*backends.values(), *([cache] if cache else [])])
        cached, threads = stack.enter_context(compilers(backends, tasks, workers, executor))
        compiling = Compiling(buildable, wanted, cached, threads)
        recorded = isinstance(tuning, Recorded)
        with clock.stage("capture"), failures.of_all(lambda: compiling.begun):
            source = Source(manifest, names, staging)
            program, keep_capture = capturing.capture(
                source,
                tasks,
                workers,
                # What a tuning file says of an executable needs the whole program.
                (lambda captured: None) if recorded else compiling.captured,
                on_stage,
                on_output,
                keep_going=keep_going,
            )
        trials.plan(manifest, program, wanted, staging)
        planned = compile_jobs(program, buildable, wanted)
        chosen: dict[Key, Tuned] = {}
        if isinstance(tuning, Recorded):
            planned, chosen = tune.replay(planned, tuning, program, staging)
        meter.expect(Kind.EXECUTABLE, len(planned))
        meter.expect(Kind.REFERENCE, 1)
        referring = capturing.reference(source, tasks, workers, on_output)
        begun = compiling.begin(planned)
        failures.wait([*begun.values(), referring])
        executables = {
            key: replace(made, tuned=chosen.get(key))
            for key, made in failures.results(begun).items()
        }
        referred = failures.results({"": referring})
        if referred and not staging.unsteady.exists():
            keep_capture()
            referred[""]()
        # Plain JAX runs beside the compiler: how long both took says nothing of either.
        clock.seconds["compile"] = meter.seconds(Kind.EXECUTABLE)
        meter.finish(Kind.EXECUTABLE)
        clock.seconds["reference"] = meter.seconds(Kind.REFERENCE)
        whole = [t for t in buildable if _has_all(t, planned, executables)] if referred else []
        parts = Assembler(manifest, program, _built_with(backends), staging)
        if isinstance(tuning, tune.Measure):
            with clock.stage("tune"):
                for target in whole:
                    if target.name not in not_tuned:
                        executables |= tune_search.search(
                            {key: job for key, job in planned.items() if key[0] == target.name},
                            executables,
                            program,
                            staging,
                            cached[target.platform],
                            parts.of,
                            workers=threads.jobs,
                            processes=workers.processes,
                            on_step=lambda done, total: on_stage("tune", done, total),
                        )
        unchecked = [parts.of(target, own(executables, target)) for target in whole]
        written = dict(zip(names, resolved, strict=True))
        limits = exceeded(manifest, written, unchecked, staging.folder)
        lines = {name: each.lines for name, each in program.entry_points.items()}
        failures.add([*limits, *gates.check(manifest, unchecked, lines)])
        with clock.stage("parity"):
            checking = Checking(tasks, workers, staging)
            meter.expect(Kind.PARITY, len(unchecked))
            ran = failures.results(checking.begin(unchecked))
            found = captured_profiles(unchecked, executables)
            parities, proofs = checking.judge(ran, found) if ran else ({}, {})
        failures.raise_collected()
        checked = [
            parts.of(each, own(executables, each), parities[each.name], proofs.get(each.name, {}))
            for each in resolved
        ]
        if before_packing:
            with clock.stage("again"):
                on_stage("again", 0, 0)
                before_packing(checked)
        with clock.stage("pack"), tasks.timed(Task(Kind.PACK, "", {}), ALWAYS):
            on_stage("pack", 0, 0)
            file = tune.file_of(executables, planned, not_tuned) if tuning else None
            packed = write_bundle(
                path,
                form,
                checked,
                manifest,
                program,
                signer,
                lambda: gather(
                    manifest,
                    program.made_from,
                    names,
                    None if stated else started,
                    time_of_build(stated),
                    file,
                    builder,
                ),
                with_sbom=with_sbom,
            )
        notes = (
            *unproven(program, staging),
            *specialized(program),
            *never_split(packed.bundle.manifests),
            *tune.notes(not_tuned, executables),
            *(cache.notes() if cache else ()),
        )
    labels = {key: f"{job.label} for {job.target.name}" for key, job in planned.items()}
    return Built(
        bundle=packed.bundle,
        attestation=packed.attestation,
        sbom=packed.sbom,
        program=program,
        compile_seconds={labels[key]: e.compile_seconds for key, e in executables.items()},
        seconds=clock.seconds,
        notes=notes,
        tuning_file=file,
        diagnostics={labels[key]: e.diagnostics for key, e in executables.items() if e.diagnostics},
        tasks=tasks.done(),
        compared=compared,
    )


def _built_with(backends: Mapping[str, Backend]) -> dict[str, BuiltWith]:
    return {platform: backend.toolchain() for platform, backend in backends.items()}


def _has_all(
    target: Target, planned: Mapping[Key, CompileJob], executables: Mapping[Key, Executable]
) -> bool:
    return all(key in executables for key in planned if key[0] == target.name)
