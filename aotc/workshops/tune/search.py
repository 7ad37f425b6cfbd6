"""`--tune`: compiles every candidate, measures them on this host, and takes the best.

The candidates for one target are packed as several targets of one bundle, which the runtime loads
and calls as in production. The chosen ones go through parity as any executable does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from aotc.backends.protocol import Backend
from aotc.errors import CompileError
from aotc.pipeline.captured_weights import Candidate, WeightFiles, candidate_job
from aotc.pipeline.provisional import pack_provisional
from aotc.pipeline.scratch import Scratch
from aotc.pipeline.tasks.workers import stopping_pool
from aotc.pipeline.tune import Assemble
from aotc.processes import Processes
from aotc.stages import CapturedProfile, CapturedProgram, CompileJob, Executable
from aotc.workers import environment
from aotc.workshops.tune import isolated, messages
from aotc.workshops.tune.candidates import DEFAULT, candidates_for
from aotc.workshops.tune.choose import MARGIN, choose, summarize
from aotc.workshops.tune.evidence import evidence
from aotc.workshops.tune.hosts import cannot_run
from aotc_runtime.schema.labels import ExecutableKey
from aotc_runtime.schema.manifest import Tuned


@dataclass(frozen=True, slots=True)
class _Try:
    """A candidate for one executable. executable: None if it did not compile; then reason
    says why.
    """

    candidate: Candidate
    job: CompileJob
    executable: Executable | None
    reason: str = ""


def search(
    jobs: Mapping[ExecutableKey, CompileJob],
    defaults: Mapping[ExecutableKey, Executable],
    program: CapturedProgram,
    scratch: Scratch,
    backend: Backend,
    assemble: Assemble,
    *,
    workers: int,
    processes: Processes,
    on_step: Callable[[int, int], None],
) -> dict[ExecutableKey, Executable]:
    """The best executables of one target: `aotc.pipeline.tune.Tuner.search`."""
    weights, profiles = WeightFiles(scratch, program.weights), program.profiles
    planned = {
        key: [
            (candidate, candidate_job(_labelled(job, candidate), candidate, profile, weights))
            for candidate in candidates_for(job.target.options, weight_bytes=weights.size(profile))
        ]
        for key, job in jobs.items()
        for profile in [profiles[key]]
    }
    steps = sum(len(each) - 1 for each in planned.values()) + len(planned)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        on_step(min(done, steps), steps)

    on_step(0, steps)
    with stopping_pool(workers, backend) as pool:
        running = {
            (key, candidate.name): pool.submit(_try, backend, candidate, job, step)
            for key, each in planned.items()
            for candidate, job in each[1:]
        }
        tries = {
            key: [
                _Try(candidate, job, defaults[key])
                if candidate.name == DEFAULT
                else running[key, candidate.name].result()
                for candidate, job in each
            ]
            for key, each in planned.items()
        }
    outcome = _measure(tries, defaults, assemble, scratch.folder, processes, step)
    if outcome.answer.unsuited:
        target = next(iter(jobs.values())).target.name
        raise CompileError(cannot_run(target, outcome.answer.unsuited))
    return {key: _chosen(key, each, outcome, profiles[key], weights) for key, each in tries.items()}


def _labelled(job: CompileJob, candidate: Candidate) -> CompileJob:
    """Labelled `f[batch=8] as eigen`: each candidate is a task of its own."""
    return replace(job, label=f"{job.label} as {candidate.name}")


def _try(backend: Backend, candidate: Candidate, job: CompileJob, step: Callable[[], None]) -> _Try:
    try:
        return _Try(candidate, job, backend.compile(job))
    except CompileError as error:
        finding = error.findings[0]
        return _Try(candidate, job, None, f"{finding.code}: {finding.found}")
    finally:
        step()


def _measure(
    tries: Mapping[ExecutableKey, Sequence[_Try]],
    defaults: Mapping[ExecutableKey, Executable],
    assemble: Assemble,
    folder: Path,
    processes: Processes,
    step: Callable[[], None],
) -> isolated.Outcome:
    """Stage every candidate as a target named after it, and run the measuring process."""
    target = next(iter(tries.values()))[0].job.target
    compiled = {
        (attempt.candidate.name, key): attempt.executable
        for key, each in tries.items()
        for attempt in each
        if attempt.executable is not None
    }
    names = list(dict.fromkeys(name for name, _ in compiled))
    provisional = pack_provisional(
        [
            assemble(
                msgspec.structs.replace(target, name=name),
                # Where a candidate did not compile, the default fills the gap, unmeasured.
                {key: compiled.get((name, key), defaults[key]) for key in tries},
            ).parts
            for name in sorted(names, key=lambda name: name != DEFAULT)
        ],
        folder,
    )
    return isolated.run(
        messages.Job(
            bundle=str(provisional.bundle),
            policy=str(provisional.policy),
            targets=tuple(sorted(names, key=lambda name: name != DEFAULT)),
            executables=tuple(compiled),
        ),
        folder,
        environment.clean({}),
        processes,
        step,
    )


def _chosen(
    key: ExecutableKey,
    tries: Sequence[_Try],
    outcome: isolated.Outcome,
    profile: CapturedProfile,
    weights: WeightFiles,
) -> Executable:
    answer = outcome.answer
    rounds = next((times.rounds for times in answer.times if times.executable == key), {})
    reasons = outcome.crashed | {
        unfit.target: unfit.reason for unfit in answer.unfit if unfit.executable == key
    }
    measured = summarize(rounds) if rounds else {}
    choice = choose(measured) if measured else DEFAULT
    reasons |= {attempt.candidate.name: attempt.reason for attempt in tries if attempt.reason}
    taken = next(attempt for attempt in tries if attempt.candidate.name == choice)
    assert taken.executable is not None, "only what was compiled is measured"
    return replace(
        taken.executable,
        tuned=Tuned(
            choice=choice,
            options=dict(sorted(taken.candidate.options.items())),
            captured=weights.arguments(profile) if taken.candidate.captures else (),
            candidates=tuple(evidence([t.candidate.name for t in tries], measured, reasons)),
            rounds=min((len(times) for times in rounds.values()), default=0),
            margin=repr(MARGIN),
            processor=answer.processor,
            threads=answer.threads,
            jaxlib=answer.jaxlib,
        ),
    )
