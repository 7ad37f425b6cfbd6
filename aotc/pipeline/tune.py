"""`aotc build --tune` and `--tuning`: the request, choices of an earlier build, and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Protocol

import msgspec

from aotc.backends.protocol import Backend
from aotc.config import tuning_file
from aotc.config.tuning_file import Key, Recorded, TuningFile, choices
from aotc.packing.bundle import TargetParts
from aotc.pipeline.captured_weights import Candidate, WeightFiles, candidate_job
from aotc.pipeline.staging import Staging
from aotc.processes import Processes
from aotc.stages import CapturedProgram, CompileJob, Executable
from aotc_runtime.schema.manifest import Target, Tuned

type Parts = Callable[[Target, Mapping[tuple[str, int], Executable]], TargetParts]
"""The parts of a target with these executables."""


class Tuner(Protocol):
    """Whatever measures candidates on this host (`--tune`)."""

    def not_tuned(self, targets: Sequence[Target]) -> dict[str, str]:
        """The targets that this host cannot run, and why.

        Raises CompileError (AOTC-E911) if it can run none of them.
        """

    def search(
        self,
        jobs: Mapping[Key, CompileJob],
        defaults: Mapping[Key, Executable],
        program: CapturedProgram,
        staging: Staging,
        backend: Backend,
        parts: Parts,
        *,
        workers: int,
        processes: Processes,
        on_step: Callable[[int, int], None],
    ) -> dict[Key, Executable]:
        """The best executables of one target, each with the evidence for its choice.

        defaults: the untuned executables.  backend: with its cache, so that no candidate is
        compiled twice.  parts: makes the parts of a bundle from candidates.  workers: compilations
        at a time.  on_step: given the steps done, and how many there are.
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
    jobs: Mapping[Key, CompileJob],
    recorded: Recorded,
    program: CapturedProgram,
    staging: Staging,
) -> tuple[dict[Key, CompileJob], dict[Key, Tuned]]:
    """The jobs with the choices of a tuning file, and those choices. Raises UsageError (AOTC-E031)
    for a file that does not fit the program, its targets or this jaxlib.
    """
    chosen = choices(recorded, jobs, version("jaxlib"))
    weights = WeightFiles(staging, program.weights)
    jobs, tuned = dict(jobs), dict(chosen)
    for key, each in chosen.items():
        profile = program.profile(key[1], key[2])
        candidate = Candidate(each.choice, each.options, bool(each.captured))
        jobs[key] = candidate_job(jobs[key], candidate, profile, weights)
        if each.captured:
            # The bundle records what was done here, whatever somebody wrote into the file.
            tuned[key] = msgspec.structs.replace(each, captured=weights.arguments(profile))
    return jobs, tuned


def notes(not_tuned: Mapping[str, str], executables: Mapping[Key, Executable]) -> Iterator[str]:
    """Notes on a tuned build: targets that are not tuned, weights that it holds twice."""
    for target, reason in not_tuned.items():
        yield f"not tuned: this host cannot run target {target}: {reason}"
    capturing = sum(bool(executable.captured) for executable in executables.values())
    if capturing:
        yield (
            f"{capturing} of {len(executables)} executables hold their weights as constants; the "
            "bundle has them in its weights as well"
        )


def file_of(
    executables: Mapping[Key, Executable],
    jobs: Mapping[Key, CompileJob],
    not_tuned: Mapping[str, str],
) -> TuningFile:
    """The choices of this build as a tuning file."""
    tuned = {key: e.tuned for key, e in executables.items() if e.tuned is not None}
    return tuning_file.of(tuned, jobs, not_tuned, version("jaxlib"))
