"""`--tune`: compiles every candidate, measures them on this host, and takes the best.

The candidates for one target, those of all its engines, are packed as several targets of one
bundle, which the runtime loads and calls as in production. The chosen ones go through parity as any
executable does.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import CompileError
from aotc.base.evidence import MIXED, EngineChoice
from aotc.base.stages import CapturedProfile, CapturedProgram, CompileJob, Executable
from aotc.base.temporary_files import temporary_folder
from aotc.base.workers import worker_environment, worker_parent
from aotc.commands.tune import startup_measurement, tuning_messages
from aotc.commands.tune.tuning_choice import MARGIN, best_of, choose, summarize, together
from aotc.commands.tune.tuning_evidence import EngineRounds, engine_choice, evidence
from aotc.commands.tune.tuning_messages import FULL, Effort
from aotc.commands.tune.tuning_variants import candidates_for, cannot_run
from aotc.compile.compiler_protocol import DEFAULT, Candidate
from aotc.pipeline import build_options, build_tuning
from aotc.pipeline.parity_check import pack_temporary
from aotc.pipeline.scratch_folder import Scratch
from aotc.pipeline.task_pool import Workers
from aotc_runtime.schema.bundle_manifest import XLA, Target, Tuned, engine_name
from aotc_runtime.schema.manifest_labels import ExecutableKey


@dataclass(frozen=True, slots=True)
class _Engine:
    """An engine of the target. prefix: of its candidates' names, if there are others."""

    name: str
    prefix: str
    compilation: build_options.EngineCompilation

    @property
    def default(self) -> str:
        """The name of its default."""
        return self.prefix + DEFAULT


@dataclass(frozen=True, slots=True)
class _Try:
    """A variant for one executable.

    `name` has its engine's prefix. `executable` is None if it did not compile, or equals another
    variant's; then `reason` has the cause.
    """

    name: str
    engine: _Engine
    candidate: Candidate
    executable: Executable | None
    reason: str = ""


type _Tries = Mapping[ExecutableKey, Sequence[_Try]]


@dataclass(frozen=True, slots=True)
class _Findings:
    """The result of measuring.

    `rounds` is by executable and variant, and `finals` compares engines by the best variant of
    each; `reasons` has causes of missing measurements.
    """

    answer: tuning_messages.Answer
    rounds: Mapping[ExecutableKey, Mapping[str, Sequence[float]]]
    finals: Mapping[ExecutableKey, Mapping[str, Sequence[float]]]
    reasons: Mapping[ExecutableKey, Mapping[str, str]]


def search(
    compilations: Sequence[build_options.EngineCompilation],
    defaults: Mapping[ExecutableKey, Executable],
    program: CapturedProgram,
    scratch: Scratch,
    assemble: build_options.Assemble,
    objective: build_options.Objective,
    *,
    mixed: bool,
    workers: int,
    processes: Processes,
    on_step: Callable[[int, int], None],
    effort: Effort = FULL,
) -> build_options.Best:
    """Return the best executables of one target: `aotc.pipeline.build_options.Tuner.search`."""
    weights = build_tuning.WeightFiles(scratch, program.weights)
    names = [engine_name(each.target) for each in compilations]
    engines = [
        _Engine(name, f"{name}-" if len(compilations) > 1 else "", each)
        for name, each in zip(names, compilations, strict=True)
    ]
    plan = _plan(engines, defaults, program, weights, effort)
    tries, steps = _compile_all(engines, defaults, plan, workers, on_step)
    made = {key: {one.name: one.reason for one in each} for key, each in tries.items()}
    compiled = {key: [o.name for o in each if o.executable] for key, each in tries.items()}
    left_out = dict(_without_default(engines, compiled, made))
    # Whoever may have single executables only need not have made all of them.
    measured_engines = [each for each in engines if mixed or each.name not in left_out]
    measuring = _Measuring(assemble, scratch.folder, processes, effort)
    found = _measure(measured_engines, tries, measuring, steps)
    steps.complete()
    left_out |= _without_default(measured_engines, found.rounds, found.reasons)
    fit = [each for each in engines if each.name not in left_out]
    picked = {each.name: dict(_pick(each, tries, found)) for each in fit}
    choice: EngineChoice | None = None
    taken = picked.get(engines[0].name) or dict(_pick(engines[0], tries, found))
    if len(engines) > 1:
        if mixed:
            several = _fastest(engines, tries, found)
            if len({each.engine.name for each in several.values()}) > 1:
                picked, names = {**picked, MIXED: several}, [*names, MIXED]
        rounds, failed = _rounds(picked, found, measuring)
        choice = engine_choice(names, rounds, {**left_out, **failed}, objective)
        if MIXED in rounds:
            choice = msgspec.structs.replace(choice, engine=MIXED)
        taken = picked.get(choice.engine, taken)
    executables = {
        key: _with_evidence(key, taken[key], tries[key], found, program.profiles[key], weights)
        for key in tries
    }
    jobs = {key: each.engine.compilation.jobs[key] for key, each in taken.items()}
    return build_options.Best(_target(engines, executables), jobs, executables, choice)


def _target(engines: Sequence[_Engine], executables: Mapping[ExecutableKey, Executable]) -> Target:
    """Return the target that has these executables: XLA's, or else the first.

    Only XLA's target has the versions of jaxlib that may run them.
    """
    used = {each.platform for each in executables.values()}
    targets = [e.compilation.target for e in engines if e.compilation.target.platform in used]
    return next((each for each in targets if engine_name(each) == XLA), targets[0])


class _Steps:
    """Counts what is done for whoever waits."""

    def __init__(self, total: int, on_step: Callable[[int, int], None]) -> None:
        self._done, self._total, self._on_step = 0, total, on_step
        on_step(0, total)

    def __call__(self) -> None:
        self._done += 1
        self._on_step(min(self._done, self._total), self._total)

    def complete(self) -> None:
        """Count what was left out, such as candidates that this host cannot run."""
        self._on_step(self._total, self._total)


type _Plan = Mapping[ExecutableKey, Sequence[tuple[_Engine, Candidate, CompileJob]]]


def _plan(
    engines: Sequence[_Engine],
    defaults: Iterable[ExecutableKey],
    program: CapturedProgram,
    weights: build_tuning.WeightFiles,
    effort: Effort,
) -> _Plan:
    """Return the candidates of every engine by preference, with their jobs: `f[n=8] as eigen`."""
    return {
        key: [
            (
                engine,
                candidate,
                build_tuning.candidate_job(replace(job, label=label), candidate, profile, weights),
            )
            for engine in engines
            for job in [engine.compilation.jobs[key]]
            for candidate in candidates_for(
                job.target, weight_bytes=weights.size(profile), narrow=weights.are_narrow(profile)
            )
            if effort.variants or candidate.name == DEFAULT
            for label in [f"{job.label} as {engine.prefix}{candidate.name}"]
        ]
        for key in defaults
        for profile in [program.profiles[key]]
    }


def _compile_all(
    engines: Sequence[_Engine],
    defaults: Mapping[ExecutableKey, Executable],
    planned: _Plan,
    workers: int,
    on_step: Callable[[int, int], None],
) -> tuple[dict[ExecutableKey, list[_Try]], _Steps]:
    """Return every candidate, compiled; `defaults` are the first engine's."""
    steps = _Steps(sum(2 * len(each) - 1 for each in planned.values()), on_step)
    with Workers(workers) as pool:
        pool.also_stop([engine.compilation.backend for engine in engines])
        running = {
            (key, engine.prefix + candidate.name): pool.submit(
                partial(_try, engine, candidate, job, steps)
            )
            for key, each in planned.items()
            for engine, candidate, job in each[1:]
        }
        tries = {
            key: [
                _Try(engine.default, engine, candidate, _on_engine(engine, defaults[key]))
                if candidate.name == DEFAULT and engine is engines[0]
                else running[key, engine.prefix + candidate.name].result()
                for engine, candidate, _ in each
            ]
            for key, each in planned.items()
        }
    return {key: [*_different(each)] for key, each in tries.items()}, steps


def _try(engine: _Engine, candidate: Candidate, job: CompileJob, step: Callable[[], None]) -> _Try:
    name = engine.prefix + candidate.name
    try:
        return _Try(
            name, engine, candidate, _on_engine(engine, engine.compilation.backend.compile(job))
        )
    except CompileError as error:
        finding = error.findings[0]
        return _Try(name, engine, candidate, None, f"{finding.code}: {finding.found}")
    finally:
        step()


def _on_engine(engine: _Engine, executable: Executable) -> Executable:
    return replace(executable, platform=engine.compilation.target.platform)


def _different(tries: Sequence[_Try]) -> Iterator[_Try]:
    """Yield the candidates without those that give the code of another one again."""
    known: dict[tuple[str, str], str] = {}
    for each in tries:
        if each.executable is None:
            yield each
            continue
        place = each.engine.name, each.executable.digest
        if place in known:
            yield replace(each, executable=None, reason=f"the same code as {known[place]}")
        else:
            known[place] = each.name
            yield each


def _without_default(
    engines: Sequence[_Engine],
    had: Mapping[ExecutableKey, Collection[str]],
    reasons: Mapping[ExecutableKey, Mapping[str, str]],
) -> Iterator[tuple[str, str]]:
    """Yield engines whose default is not had for some executable, with the first reason."""
    for engine in engines:
        for key, known in reasons.items():
            if engine.default not in had.get(key, ()):
                reason = known.get(engine.default, "the first engine was not measured")
                yield engine.name, f"{key.label}: {reason}"
                break


@dataclass(frozen=True, slots=True)
class _Measuring:
    """Needs of measuring: a bundle's parts, the build's folder, and processes."""

    assemble: build_options.Assemble
    folder: Path
    processes: Processes
    effort: Effort


def _measure(
    engines: Sequence[_Engine], tries: _Tries, measuring: _Measuring, step: Callable[[], None]
) -> _Findings:
    """Stage every candidate as a target named after it, and run the measuring process.

    engines: of which something compiled. Raises CompileError (AOTC-E911).
    """
    compiled = {
        (one.name, key): one.executable
        for key, each in tries.items()
        for one in each
        if one.executable is not None and one.engine in engines
    }
    default_of = {one.name: one.engine.default for each in tries.values() for one in each}
    base = engines[0].default
    names = sorted(dict.fromkeys(name for name, _ in compiled), key=lambda name: name != base)
    packed = []
    for name in names:
        # Where a candidate did not compile, a default fills the gap, unmeasured.
        filled = {
            key: next(
                compiled[one, key]
                for one in (name, default_of[name], base)
                if (one, key) in compiled
            )
            for key in tries
        }
        target = msgspec.structs.replace(_target(engines, filled), name=name)
        packed.append(measuring.assemble(target, filled).parts)
    temporary = pack_temporary(packed, measuring.folder)
    job = tuning_messages.Job(
        bundle=str(temporary.bundle),
        policy=str(temporary.policy),
        targets=tuple(names),
        executables=tuple(compiled),
        engines=tuple(_names(engine, tries) for engine in engines) if len(engines) > 1 else (),
        effort=measuring.effort,
    )
    environment = worker_environment.clean({})
    outcome = measure_job(job, measuring.folder, environment, measuring.processes, step)
    answer = outcome.answer
    if answer.unsuited:
        raise CompileError(cannot_run(engines[0].compilation.target.name, answer.unsuited))
    return _Findings(
        answer,
        {times.executable: times.rounds for times in answer.times},
        {times.executable: times.finals or times.rounds for times in answer.times},
        {
            key: outcome.crashed
            | {unfit.target: unfit.reason for unfit in answer.unfit if unfit.executable == key}
            | {one.name: one.reason for one in each if one.reason}
            for key, each in tries.items()
        },
    )


def _names(engine: _Engine, tries: _Tries) -> tuple[str, ...]:
    """Return an engine's candidates in the order of preference, its default first."""
    return tuple(dict.fromkeys(o.name for e in tries.values() for o in e if o.engine is engine))


def _pick(engine: _Engine, tries: _Tries, found: _Findings) -> Iterator[tuple[ExecutableKey, _Try]]:
    """Yield the best candidate of an engine for each executable."""
    names = _names(engine, tries)
    for key, each in tries.items():
        choice = best_of(names, found.rounds.get(key, {}))
        yield key, next(one for one in each if one.name == choice)


def _fastest(
    engines: Sequence[_Engine], tries: _Tries, found: _Findings
) -> dict[ExecutableKey, _Try]:
    """Return for each executable the fastest engine's best variant.

    The first engine stays unless another saves the margin.
    """
    best: dict[ExecutableKey, _Try] = {}
    picked = [dict(_pick(engine, tries, found)) for engine in engines]
    for key in tries:
        rounds, first = found.finals.get(key, {}), picked[0][key]
        own = {each[key].name: each[key] for each in picked if each[key].name in rounds}
        choice = first.name
        if choice in own:
            choice = choose(summarize({n: rounds[n] for n in own}, choice), choice)
        best[key] = own.get(choice, first)
    return best


def _rounds(
    picked: Mapping[str, Mapping[ExecutableKey, _Try]], found: _Findings, measuring: _Measuring
) -> tuple[dict[str, EngineRounds], dict[str, str]]:
    """Return the rounds of each engine's best executables, and why some engines failed."""
    with temporary_folder(measuring.folder, "starts-", "") as own:
        bundles = {}
        for name, each in picked.items():
            (own / name).mkdir()
            made = {key: one.executable for key, one in each.items() if one.executable}
            target = _target([one.engine for one in each.values()], made)
            bundles[name] = pack_temporary([measuring.assemble(target, made).parts], own / name)
        environment, count = worker_environment.clean({}), measuring.effort.starts
        starts, failed = startup_measurement.measure(
            bundles, own, environment, measuring.processes, count
        )
    return {
        name: EngineRounds(
            latency=together([found.finals[key][one.name] for key, one in each.items()]),
            start=[seconds * 1e3 for seconds, _ in starts[name]],
            memory=[float(peak) for _, peak in starts[name]],
        )
        for name, each in picked.items()
        if name in starts
    }, failed


def _with_evidence(
    key: ExecutableKey,
    taken: _Try,
    tries: Sequence[_Try],
    found: _Findings,
    profile: CapturedProfile,
    weights: build_tuning.WeightFiles,
) -> Executable:
    """Return the chosen executable with its evidence."""
    answer, rounds = found.answer, found.rounds.get(key, {})
    measured = summarize(rounds, tries[0].name) if tries[0].name in rounds else {}
    assert taken.executable is not None, "only what was compiled is measured"
    return replace(
        taken.executable,
        tuned=Tuned(
            choice=taken.name,
            options=dict(sorted(taken.candidate.options.items())),
            captured=weights.arguments(profile) if taken.candidate.captures else (),
            candidates=tuple(evidence([t.name for t in tries], measured, found.reasons[key])),
            rounds=min((len(times) for times in rounds.values()), default=0),
            margin=repr(MARGIN),
            processor=answer.processor,
            threads=answer.threads,
            jaxlib=answer.jaxlib,
        ),
    )


LINES_SHOWN = 12

SECONDS_MAX = 600.0
"""Without a word of the measuring process: a turn takes three calls, so one of them hangs."""

WORKER = worker_parent.module("aotc.commands.tune.tuning_worker")


@dataclass(frozen=True, slots=True)
class Outcome:
    """crashed: target of a candidate to how it ended the process."""

    answer: tuning_messages.Answer
    crashed: dict[str, str]


def measure_job(
    job: tuning_messages.Job,
    folder: Path,
    environment: Mapping[str, str],
    processes: Processes,
    on_done: Callable[[], None],
    worker: Sequence[str] = WORKER,
    seconds_max: float = SECONDS_MAX,
) -> Outcome:
    """Measure the variants of a job; one that hangs for `seconds_max` in a turn counts as crashed.

    `on_done` is called for each variant of an executable, as turns end.

    Raises:
        CompileError: AOTC-E912 if the default crashes, or the process without naming a variant.
    """
    crashed: dict[str, str] = {}
    while True:
        try:
            answer = worker_parent.run(
                worker,
                job,
                tuning_messages.Answer,
                within=folder,
                environment=environment,
                processes=processes,
                silent_seconds=seconds_max,
                on_finished=lambda executable: on_done(),
            )
            return Outcome(answer, crashed)
        except worker_parent.CrashedError as crash:
            current = crash.doing
            if current not in job.targets[1:]:
                where = "the process that measures candidates"
                raise crash.refusal("AOTC-E912", where, LINES_SHOWN) from crash
            crashed[current] = describe_status(crash.status)
        job = msgspec.structs.replace(
            job,
            targets=tuple(target for target in job.targets if target != current),
            executables=tuple(each for each in job.executables if each[0] != current),
        )
