"""`aotc build --tune` and `--tuning`: the request, choices of an earlier build, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import msgspec

from aotc.errors import CompileError
from aotc.pipeline.staging import Staging
from aotc.pipeline.tuning.captured_weights import WeightFiles, candidate_job
from aotc.stages import ByTarget, CapturedProgram, CompileJob, Executable
from aotc.tuning import tuning_file
from aotc.tuning.candidates import Candidate
from aotc.tuning.hosts import cannot_run, unsuited
from aotc.tuning.tuning_file import Positions, Recorded, TuningFile, choices
from aotc_runtime.schema.manifest import Target, Tuned


@dataclass(frozen=True, slots=True)
class Measure:
    """A request to measure candidates on this host (`--tune`)."""


type Tuning = Measure | Recorded


def not_tuned(tuning: Tuning | None, targets: Sequence[Target]) -> dict[str, str]:
    """The targets that are not tuned, and why.

    Raises CompileError (AOTC-E911) if this host is to measure and can run none of them.
    """
    if tuning is None:
        return {}
    if isinstance(tuning, Recorded):
        reasons = tuning.file.not_tuned
        return {t.name: reasons[t.name] for t in targets if t.name in reasons}
    from aotc.backends.xla.native import describe_native

    host = describe_native()
    reasons = {t.name: reason for t in targets if (reason := unsuited(t, host))}
    if len(reasons) == len(targets):
        raise CompileError(*(cannot_run(name, reason) for name, reason in reasons.items()))
    return reasons


def replay(
    jobs: ByTarget[CompileJob],
    recorded: Recorded,
    program: CapturedProgram,
    staging: Staging,
) -> tuple[ByTarget[CompileJob], ByTarget[Tuned]]:
    """The jobs with the choices of a tuning file, and those choices. Raises UsageError (AOTC-E031)
    for a file that does not fit the program, its targets or this jaxlib.
    """
    chosen = choices(recorded, jobs, _positions(program), version("jaxlib"))
    weights, profiles = WeightFiles(staging, program.weights), program.profiles
    tuned_jobs = {target: dict(each) for target, each in jobs.items()}
    tuned = {target: dict(each) for target, each in chosen.items()}
    for target, each in chosen.items():
        for key, choice in each.items():
            profile, job = profiles[key], jobs[target][key]
            candidate = Candidate(choice.choice, choice.options, bool(choice.captured))
            tuned_jobs[target][key] = candidate_job(job, candidate, profile, weights)
            if choice.captured:
                # The bundle records what was done here, whatever somebody wrote into the file.
                captured = weights.arguments(profile)
                tuned[target][key] = msgspec.structs.replace(choice, captured=captured)
    return tuned_jobs, tuned


def _positions(program: CapturedProgram) -> Positions:
    return {
        key: position
        for entry_point in program.entry_points.values()
        for position, key in enumerate(entry_point.by_key)
    }


def notes(not_tuned: Mapping[str, str], executables: ByTarget[Executable]) -> Iterator[str]:
    """Notes on a tuned build: targets that are not tuned, weights that it holds twice."""
    for target, reason in not_tuned.items():
        yield f"not tuned: this host cannot run target {target}: {reason}"
    every = [executable for each in executables.values() for executable in each.values()]
    capturing = sum(bool(executable.captured) for executable in every)
    if capturing:
        yield (
            f"{capturing} of {len(every)} executables hold their weights as constants; the "
            "bundle has them in its weights as well"
        )


def file_of(
    executables: ByTarget[Executable],
    jobs: ByTarget[CompileJob],
    program: CapturedProgram,
    not_tuned: Mapping[str, str],
) -> TuningFile:
    """The choices of this build as a tuning file."""
    tuned = {
        target: {key: e.tuned for key, e in each.items() if e.tuned is not None}
        for target, each in executables.items()
    }
    return tuning_file.of(tuned, jobs, _positions(program), not_tuned, version("jaxlib"))
