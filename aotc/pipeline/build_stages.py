"""The stages of one build, in the order they run: capture, compile, tune, check.

Each is a function from what the stages before it made to what the next ones need. What all of them
share (workers, cache, scratch folder, progress) is one `BuildRun`.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from aotc.base.errors import CaptureError, EngineFailedError, raise_if
from aotc.base.evidence import EngineChoice
from aotc.base.stages import ByTarget, CapturedEntryPoint, CapturedProgram, CompileJob, Executable
from aotc.base.temporary_files import remove_folder
from aotc.bundle.read.call_memory import over_limit
from aotc.bundle.write.bundle_writer import TargetParts
from aotc.check import gates
from aotc.check.parity_process import Ran
from aotc.check.trial_records import count_trials
from aotc.compile.compiler_protocol import Backend
from aotc.config.build_manifest import BuildManifest
from aotc.config.tuning_file import Recorded
from aotc.pipeline import build_tuning, user_processes
from aotc.pipeline.asset_files import AssetFiles
from aotc.pipeline.build_options import BuildOptions, EngineCompilation, Tuner, Tuning
from aotc.pipeline.build_plan import EngineFallback, Wanted, compile_jobs, first_refusal
from aotc.pipeline.cached_backend import CachedBackend, backends_for
from aotc.pipeline.cached_tasks import Kind, Tasks, open_tasks
from aotc.pipeline.evaluation import Evaluated, evaluate, over_limits, specs_of
from aotc.pipeline.parity_check import BUNDLE, ParityCheck
from aotc.pipeline.scratch_folder import ProgramJob, Scratch, scratch_folder
from aotc.pipeline.target_assembly import AssembledTarget, Assembler, proven
from aotc.pipeline.task_pool import Failures, Workers
from aotc.pipeline.task_progress import Meter, OnStage
from aotc.pipeline.user_processes import OnOutput, Source
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BuiltWith, Target, Tuned, engine_name
from aotc_runtime.schema.manifest_labels import ExecutableKey


@dataclass(frozen=True, slots=True)
class Request:
    """A build request, resolved as far as no child process is needed.

    `names` are the targets as the manifest or the caller writes them, `targets` the same in this
    order, each for the first engine of its list. `next_engines` has, by its name, a target for the
    other engines of its list, in order; `beside` those for engines that a tuning file chose for
    single executables, by engine. `assets` are the manifest's, `wanted` the executables of each
    target. `untuned_targets` has targets that tuning leaves as they are, and why. With
    `keep_going`, failures are collected; the first one ends the build otherwise.
    """

    manifest: BuildManifest
    assets: AssetFiles
    names: tuple[str, ...]
    targets: tuple[Target, ...]
    next_engines: Mapping[str, tuple[Target, ...]]
    beside: build_tuning.ByEngine
    wanted: Wanted
    tuning: Tuning | None
    untuned_targets: Mapping[str, str]
    keep_going: bool


@dataclass(frozen=True, slots=True)
class BuildRun:
    """The state that the stages of a build share while it runs.

    `compared` names the earlier build that `tasks` are compared with. `seconds` is by the clock, by
    stage. `built_with` has the platforms whose toolchain is installed, `compilers` the backends of
    the same platforms, behind the cache. `compile_workers` are the threads that wait for the
    compilers; `workers` if this host compiles.
    """

    request: Request
    tasks: Tasks
    compared: str
    workers: Workers
    scratch: Scratch
    failures: Failures
    meter: Meter
    seconds: dict[str, float]
    built_with: Mapping[str, BuiltWith]
    compilers: Mapping[str, CachedBackend]
    compile_workers: Workers
    on_stage: OnStage
    on_output: OnOutput

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    @property
    def buildable(self) -> list[Target]:
        """The targets with a backend. The others are failures already, when this build goes on."""
        return [t for t in self.request.targets if t.platform in self.compilers]

    def by_engine(self, target: Target) -> list[Target]:
        """Return a target for every engine of its list that has a backend, in the list's order."""
        first = [each for each in self.buildable if each.name == target.name]
        later = self.request.next_engines.get(target.name, ())
        return first + [each for each in later if each.platform in self.compilers]


@dataclass(frozen=True, slots=True)
class Compiled:
    """Results of the compile stage.

    `jobs` has every executable to make, and `executables` those made, fewer after collected
    failures. `whole` has targets that lack nothing; `fallbacks` those compiled by a later engine of
    their list; `chosen` the measured engines.
    """

    jobs: ByTarget[CompileJob]
    executables: ByTarget[Executable]
    whole: list[Target]
    fallbacks: tuple[EngineFallback, ...] = ()
    chosen: Mapping[str, EngineChoice] = field(default_factory=dict)

    def platforms(self, target: Target) -> list[str]:
        """Return the platform of each executable of a target."""
        return [job.target.platform for job in self.jobs[target.name].values()]


@dataclass(slots=True)
class CompileQueue:
    """The compile jobs that were begun, none of them twice. Threads may share it."""

    _backends: Mapping[str, Backend]
    _workers: Workers
    _begun: dict[tuple[str, ExecutableKey], Future[Executable]] = field(default_factory=dict)

    @property
    def begun(self) -> Mapping[tuple[str, ExecutableKey], Future[Executable]]:
        """Every job so far, by the target's name and the executable."""
        return dict(self._begun)

    def forget(self, target: str) -> None:
        """Leave out what was begun for a target, so that it can begin for another engine."""
        self._begun = {place: job for place, job in self._begun.items() if place[0] != target}

    def begin(self, jobs: ByTarget[CompileJob]) -> list[Future[Executable]]:
        """Begin those jobs that have not been begun; the futures of all of them."""
        every = {(name, key): job for name, each in jobs.items() for key, job in each.items()}
        for place, job in every.items():
            if place not in self._begun:
                backend = self._backends[job.target.platform]
                self._begun[place] = self._workers.submit(partial(backend.compile, job))
        return [self._begun[place] for place in every]


@contextmanager
def open_run(request: Request, options: BuildOptions) -> Iterator[BuildRun]:
    """Open the cache, a scratch folder, workers and backends.

    If the block is left by an exception, every process of the build is ended.
    Raises CompileError for platforms without a toolchain, UsageError (AOTC-E003).
    """
    failures, manifest = Failures(keep_going=request.keep_going), request.manifest
    meter = Meter(options.on_stage, options.on_done)
    with open_tasks(options.cache, manifest.path, manifest.name, meter.done) as (tasks, compared):
        every = [t for others in request.next_engines.values() for t in others]
        beside = [t for others in request.beside.values() for t in others.values()]
        backends = backends_for([*request.targets, *every, *beside], failures)
        with (
            scratch_folder() as folder,
            Workers(options.jobs or len(os.sched_getaffinity(0))) as workers,
            options.compilers(backends, tasks, workers) as (cached, compile_workers),
        ):
            workers.also_stop([*backends.values(), *([options.cache] if options.cache else [])])
            yield BuildRun(
                request=request,
                tasks=tasks,
                compared=compared,
                workers=workers,
                scratch=Scratch(folder),
                failures=failures,
                meter=meter,
                seconds={},
                built_with={name: each.toolchain() for name, each in backends.items()},
                compilers=cached,
                compile_workers=compile_workers,
                on_stage=options.on_stage,
                on_output=options.on_output,
            )


def capture_and_compile(run: BuildRun) -> tuple[CapturedProgram, Compiled]:
    """Capture the program, compile it, and run it in plain JAX, as far as possible side by side.

    Raises BuildManifestError, CaptureError, CompileError, ParityError.
    """
    request = run.request
    source = source_of(run)
    queue = CompileQueue(run.compilers, run.compile_workers)

    def begin(captured: CapturedEntryPoint) -> None:
        # What a tuning file says of an executable needs the whole program; otherwise each entry
        # point is compiled as soon as it is captured.
        if not isinstance(request.tuning, Recorded):
            queue.begin(compile_jobs([captured], run.buildable, request.wanted))

    with run.stage("capture"), run.failures.collect(lambda: queue.begun):
        program = user_processes.capture(
            source,
            run.tasks,
            run.workers,
            begin,
            run.on_stage,
            run.on_output,
            run.failures,
        )
    return program, _compile(run, source, queue, program)


def source_of(run: BuildRun) -> Source:
    """Return the program of a build, for the processes that run it."""
    request = run.request
    # Read once: the file of a target may be another one by now.
    platforms = [target.platform for target in request.targets]
    targets = dict(zip(request.names, platforms, strict=True))
    return Source(ProgramJob(request.manifest, targets, request.wanted), run.scratch)


def _compile(
    run: BuildRun, source: Source, queue: CompileQueue, program: CapturedProgram
) -> Compiled:
    """Wait for every executable and for plain JAX."""
    request, failures, meter, buildable = run.request, run.failures, run.meter, run.buildable
    jobs: ByTarget[CompileJob] = compile_jobs(
        program.entry_points.values(), buildable, request.wanted
    )
    chosen: ByTarget[Tuned] = {}
    if isinstance(request.tuning, Recorded):
        jobs, chosen = build_tuning.replay(
            buildable, jobs, request.tuning, program, run.scratch, request.beside, run.built_with
        )
    meter.expect(Kind.EXECUTABLE, sum(map(len, jobs.values())))
    meter.expect(Kind.REFERENCE, 1 + count_trials(run.scratch.folder))
    reference = user_processes.reference(
        source, program, run.tasks, run.workers, run.on_output, lambda _: meter.step(Kind.REFERENCE)
    )
    queue.begin(jobs)
    settled = [_settle(run, queue, program, run.by_engine(each)) for each in buildable]
    targets = [target for target, _ in settled]
    others = [each for each in targets if each not in buildable]
    jobs = {**jobs, **compile_jobs(program.entry_points.values(), others, request.wanted)}
    chosen = {name: each for name, each in chosen.items() if name not in {t.name for t in others}}
    compiling = queue.begin(jobs)
    try:
        failures.wait([*compiling, reference])
    except CaptureError as error:
        if error.code == "AOTC-E842":
            # What a compiler rejects is no matter of this host: it is the error to report.
            failures.wait(compiling)
        raise
    # Some were begun for entry points that the capture has refused after it had traced them.
    finished = failures.results(queue.begun)
    executables = {
        target: {
            key: replace(
                finished[target, key],
                tuned=chosen.get(target, {}).get(key),
                platform=job.target.platform,
            )
            for key, job in each.items()
            if (target, key) in finished
        }
        for target, each in jobs.items()
    }
    is_referred = bool(failures.results({"": reference}))
    # Plain JAX runs beside the compiler: how long both took together says nothing of either.
    run.seconds["compile"] = meter.seconds(Kind.EXECUTABLE)
    meter.finish(Kind.EXECUTABLE)
    run.seconds["reference"] = meter.seconds(Kind.REFERENCE)
    whole = [
        target
        for target in targets
        if is_referred and executables[target.name].keys() == jobs[target.name].keys()
    ]
    fallbacks = tuple(fallback for _, each in settled for fallback in each)
    return Compiled(
        jobs, executables, whole, fallbacks, build_tuning.recorded_choices(request.tuning)
    )


def _settle(
    run: BuildRun, queue: CompileQueue, program: CapturedProgram, engines: Sequence[Target]
) -> tuple[Target, list[EngineFallback]]:
    """Return a target for the first of its engines that compiles it whole, or for the last one.

    Its executables of the first engine have been begun. Engine fallbacks come second.
    """
    target, *later = engines
    fallbacks: list[EngineFallback] = []
    for other in later:
        refused = first_refusal([f for at, f in queue.begun.items() if at[0] == target.name])
        if not refused:
            break
        taken = engine_name(target), engine_name(other)
        fallbacks.append(EngineFallback(target.name, *taken, refused))
        queue.forget(target.name)
        target = other
        queue.begin(compile_jobs(program.entry_points.values(), [target], run.request.wanted))
    return target, fallbacks


def tune_targets(
    run: BuildRun, tuner: Tuner, program: CapturedProgram, compiled: Compiled, parts: Assembler
) -> Compiled:
    """Replace executables by the best of their candidates, as measured on this host.

    Raises CompileError: AOTC-E911, E912.
    """
    executables, jobs = dict(compiled.executables), dict(compiled.jobs)
    whole: list[Target] = []
    chosen: dict[str, EngineChoice] = {}
    with run.stage("tune"):
        for target in compiled.whole:
            if target.name in run.request.untuned_targets:
                whole.append(target)
                continue
            best = tuner.search(
                [*_engine_compilations(run, target, jobs, program)],
                executables[target.name],
                program,
                run.scratch,
                parts.assemble,
                run.request.manifest.tune.objective or "latency",
                mixed=run.request.manifest.tune.mixed,
                workers=run.compile_workers.jobs,
                processes=run.workers.processes,
                on_step=lambda done, total: run.on_stage("tune", done, total),
            )
            whole.append(best.target)
            executables[target.name], jobs[target.name] = best.executables, best.jobs
            if best.choice is not None:
                chosen[target.name] = best.choice
    return replace(compiled, jobs=jobs, executables=executables, whole=whole, chosen=chosen)


def _engine_compilations(
    run: BuildRun, target: Target, jobs: ByTarget[CompileJob], program: CapturedProgram
) -> Iterator[EngineCompilation]:
    """Yield a compiled target, and the same for each later engine.

    Where executables may have different engines, also for earlier ones, which rejected some.
    """
    yield EngineCompilation(target, jobs[target.name], run.compilers[target.platform])
    every = run.by_engine(target)
    begin = 0 if run.request.manifest.tune.mixed else every.index(target) + 1
    for other in every[begin:]:
        if other != target:
            captured = program.entry_points.values()
            made = compile_jobs(captured, [other], run.request.wanted)[target.name]
            yield EngineCompilation(other, made, run.compilers[other.platform])


def check(
    run: BuildRun, program: CapturedProgram, compiled: Compiled, parts: Assembler
) -> tuple[list[TargetParts], Compiled]:
    """Check every target's memory limit, the gates and parity; return proven parts of targets.

    Where an engine fails to load or call its executables, or computes wrong results, the next one
    of the list compiles the target, which alone is checked again; what is compiled in the end comes
    second.

    Raises BudgetExceededError (AOTC-E973, E975), CompileError, ParityError, and failures collected
    before.
    """
    failures, manifest = run.failures, run.request.manifest
    parity = ParityCheck(run.tasks, run.workers, run.scratch, manifest.where)
    made: dict[str, AssembledTarget] = {}
    begun: dict[str, Future[Ran]] = {}
    missing = compiled.whole
    with run.stage("parity"):
        while missing:
            for target in missing:
                name, chosen = target.name, compiled.chosen.get(target.name)
                executables = compiled.executables[name]
                made[name] = parts.assemble(target, executables, chosen, compiled.fallbacks)
            if not failures.are_collected:
                raise_if(_exceeded_limits(run.request, program, [*made.values()]))
            run.meter.expect(Kind.PARITY, len(made))
            wait(begun.values())  # They read the bundle that the next one replaces.
            begun |= parity.begin([made[target.name].parts for target in missing])
            before = compiled.whole
            compiled = _take_next_engines(run, program, compiled, begun)
            missing = [target for target in compiled.whole if target not in before]
        assembled = [made[target.name] for target in compiled.whole]
        failures.add(_exceeded_limits(run.request, program, assembled))
        ran = failures.results({target.name: begun[target.name] for target in compiled.whole})
        remove_folder(run.scratch.folder / BUNDLE)
    failures.raise_collected()
    found: dict[str, Evaluated] = {}
    if specs_of(manifest):
        with run.stage("evaluate"):
            unchecked = [each.parts for each in assembled]
            found = evaluate(run, source_of(run), program, unchecked, ran, parity)
        failures.add(over_limits(manifest, found))
        failures.raise_collected()
    checked = [
        proven(each, ran[name], parity.tried.get(name, []), found.get(name, {}))
        for each in assembled
        for name in [each.parts.manifest.target.name]
    ]
    return checked, compiled


def _take_next_engines(
    run: BuildRun, program: CapturedProgram, compiled: Compiled, begun: Mapping[str, Future[Ran]]
) -> Compiled:
    """Compile anew the targets whose engine fails to run its executables, or is wrong.

    Return what is compiled then; the same value if no engine fails, or none is left.
    """
    for target in compiled.whole if run.request.tuning is None else ():
        every = run.by_engine(target)
        later = every[every.index(target) + 1 :]
        error = begun[target.name].exception() if later else None
        if isinstance(error, EngineFailedError):
            engines = engine_name(target), engine_name(later[0])
            failed = EngineFallback(target.name, *engines, error.findings)
            compiled = _compile_by(run, program, compiled, later, failed)
    return compiled


def _compile_by(
    run: BuildRun,
    program: CapturedProgram,
    compiled: Compiled,
    engines: Sequence[Target],
    failed: EngineFallback,
) -> Compiled:
    """Compile a target by the first of these engines that compiles it, after one that failed."""
    name, wanted = failed.target, run.request.wanted
    queue = CompileQueue(run.compilers, run.compile_workers)
    entry_points = program.entry_points.values()
    queue.begin(compile_jobs(entry_points, engines[:1], wanted))
    target, fallbacks = _settle(run, queue, program, engines)
    jobs = compile_jobs(entry_points, [target], wanted)
    queue.begin(jobs)
    made = {
        key: replace(executable, platform=target.platform)
        for (_, key), executable in run.failures.results(queue.begun).items()
    }
    is_whole = made.keys() == jobs[name].keys()
    whole = [target if each.name == name else each for each in compiled.whole]
    return replace(
        compiled,
        jobs={**compiled.jobs, **jobs},
        executables={**compiled.executables, name: made},
        whole=[each for each in whole if is_whole or each.name != name],
        fallbacks=(*compiled.fallbacks, failed, *fallbacks),
    )


def _exceeded_limits(
    request: Request, program: CapturedProgram, targets: Sequence[AssembledTarget]
) -> list[Finding]:
    """Return AOTC-E973 for memory limits of targets, and AOTC-E975 for gates, that are exceeded."""
    manifest, lines = request.manifest, {n: e.lines for n, e in program.entry_points.items()}
    names = {target.name: name for name, target in zip(request.names, request.targets, strict=True)}
    found: list[Finding] = []
    for each in targets:
        name = names[each.parts.manifest.target.name]
        override = manifest.overrides.get(name)
        if override is not None and override.memory_limit is not None:
            where = manifest.where("target", name, "memory_limit")
            found += over_limit(each.parts.manifest, override.memory_limit, where)
    return [*found, *gates.check(manifest, [each.gated() for each in targets], lines)]
