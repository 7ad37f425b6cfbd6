"""Runs the measuring process; a candidate that crashes it is left out and the others go on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aotc.base.child_processes import Processes, describe_status
from aotc.base.workers import worker_parent
from aotc.commands.tune.tuning_messages import Answer, Job

LINES_SHOWN = 12

SECONDS_MAX = 600.0
"""Without a word of the measuring process: a turn takes three calls, so one of them hangs."""

WORKER = worker_parent.module("aotc.commands.tune.tuning_worker")


@dataclass(frozen=True, slots=True)
class Outcome:
    """crashed: target of a candidate to how it ended the process."""

    answer: Answer
    crashed: dict[str, str]


def run(
    job: Job,
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
                Answer,
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
