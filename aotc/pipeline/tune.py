"""`aotc build --tune` and `--tuning`: the request, choices of an earlier build, and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Protocol

import msgspec

from aotc.backends.protocol import Backend
from aotc.config import tuning_file
from aotc.config.tuning_file import Positions, Recorded, TuningFile, choices
from aotc.pipeline.assemble import AssembledTarget
from aotc.pipeline.captured_weights import Candidate, WeightFiles, candidate_job
from aotc.pipeline.scratch import Scratch
from aotc.processes import Processes
from aotc.stages import ByTarget, CapturedProgram, CompileJob, Executable
from aotc_runtime.schema.labels import ExecutableKey
from aotc_runtime.schema.manifest import Target, Tuned

type Assemble = Callable[[Target, Mapping[ExecutableKey, Executable]], AssembledTarget]
"""Makes the parts of a target with these executables."""


class Tuner(Protocol):
    """Whatever measures candidates on this host (`--tune`)."""

    def not_tuned(self, targets: Sequence[Target]) -> dict[str, str]:
        """The targets that this host cannot run, and why.

        Raises CompileError (AOTC-E911) if it can run none of them.
        """

    def search(
        self,
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
        """The best executables of one target, each with the evidence for its choice.

        defaults: the untuned executables.  backend: with its cache, so that no candidate is
        compiled twice.  assemble: makes the parts of a bundle from candidates.  workers:
        compilations at a time.  on_step: given the steps done, and how many there are.
        Raises CompileError: AOTC-E911 the runtime says that this host cannot run the target, E912
        the measuring process crashed.
        """


type Tuning = Tuner | Recorded


def not_tuned(tuning: Tuning | None, targets: Sequence[Target]) -> dict[str, str]:
    """The targets that are not tuned, and why.

    Raises CompileError (AOTC-E911) if this host is to measure and can run none of them.
    """
    if tuning is None:
        return {}
    if isinstance(tuning, Recorded):
        reasons = tuning.file.not_tuned
        return {t.name: reasons[t.name] for t in targets if t.name in reasons}
    return tuning.not_tuned(targets)


def replay(
    jobs: ByTarget[CompileJob],
    recorded: Recorded,
    program: CapturedProgram,
    scratch: Scratch,
) -> tuple[ByTarget[CompileJob], ByTarget[Tuned]]:
    """The jobs with the choices of a tuning file, and those choices. Raises UsageError (AOTC-E031)
    for a file that does not fit the program, its targets or this jaxlib.
    """
    chosen = choices(recorded, jobs, _positions(program), version("jaxlib"))
    weights, profiles = WeightFiles(scratch, program.weights), program.profiles
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
    return tuning_file.of_build(tuned, jobs, _positions(program), not_tuned, version("jaxlib"))
