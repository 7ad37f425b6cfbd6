"""Runs the measuring process; a candidate that crashes it is left out and the others go on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aotc.errors import quoted, refusal
from aotc.processes import Processes, describe_status
from aotc.workshops.tune import messages
from aotc.workshops.tune.messages import Answer, Job

LINES_SHOWN = 12

SECONDS_MAX = 600.0
"""Without a word of the measuring process: a turn takes three calls, so one of them hangs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """crashed: target of a candidate to how it ended the process."""

    answer: Answer
    crashed: dict[str, str]


def run(
    job: Job,
    folder: Path,
    environment: dict[str, str],
    processes: Processes,
    on_done: Callable[[], None],
    worker: Sequence[str] = (sys.executable, "-P", "-m", "aotc.workshops.tune.worker"),
    seconds_max: float = SECONDS_MAX,
) -> Outcome:
    """Measure what the job says. on_done: called for each executable whose turns are over.
    seconds_max: how long a turn may take; what hangs counts as crashed.

    Raises CompileError (AOTC-E912) if the default itself crashes, or the process does so without
    naming a candidate.
    """
    crashed: dict[str, str] = {}
    while True:
        current, status, said = _attempt(
            job, folder, environment, processes, on_done, worker, seconds_max
        )
        answer = folder / messages.ANSWER_FILE
        if status == 0 and answer.exists():
            return Outcome(msgspec.json.decode(answer.read_bytes(), type=Answer), crashed)
        if current not in job.targets[1:]:
            raise refusal(
                "AOTC-E912",
                "the process that measures candidates",
                quoted(describe_status(status), said),
            )
        crashed[current] = describe_status(status)
        job = msgspec.structs.replace(
            job,
            targets=tuple(target for target in job.targets if target != current),
            executables=tuple(each for each in job.executables if each[0] != current),
        )


def _attempt(
    job: Job,
    folder: Path,
    environment: dict[str, str],
    processes: Processes,
    on_done: Callable[[], None],
    worker: Sequence[str],
    seconds_max: float,
) -> tuple[str, int, list[str]]:
    """The candidate that ran last, the exit status, and the last lines of what was said."""
    (folder / messages.JOB_FILE).write_bytes(msgspec.json.encode(job))
    (folder / messages.ANSWER_FILE).unlink(missing_ok=True)
    current = ""
    with (
        (folder / "tune.stderr").open("w+b") as stderr,
        processes.started(
            [*worker, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        watch = _Watch(process, seconds_max)
        for line in process.stdout:
            watch.again()
            if line.startswith(messages.TURN):
                current = line.removeprefix(messages.TURN).rstrip("\n")
            elif line.startswith(messages.DONE):
                on_done()
        status = process.wait()
        watch.stop()
        stderr.seek(0)
        said = stderr.read().decode(errors="replace").strip().splitlines()
    return current, status, said[-LINES_SHOWN:]


class _Watch:
    """Ends a process that says nothing for too long."""

    def __init__(self, process: subprocess.Popen[str], seconds: float) -> None:
        self._process, self._seconds = process, seconds
        self._start()

    def _start(self) -> None:
        self._timer = threading.Timer(self._seconds, self._process.kill)
        self._timer.daemon = True
        self._timer.start()

    def again(self) -> None:
        self._timer.cancel()
        self._start()

    def stop(self) -> None:
        self._timer.cancel()
