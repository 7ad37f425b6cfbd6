"""Runs compile workers, for any backend: one process for each executable, and how it can fail."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from aotc.backends import pass_log, worker_folder
from aotc.backends.refusals import LINES_SHOWN, place_of
from aotc.backends.worker_folder import Result
from aotc.errors import quoted, refusal
from aotc.processes import Processes, describe_status
from aotc.stages import CompileJob
from aotc.temporaries import require_room, temporary_folder
from aotc_runtime.schema.manifest import Cost, Memory

SECONDS_MAX = 1800.0
"""A single executable that takes half an hour is stuck; the largest of our examples takes 3 s."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker made of a job, and the lines it printed."""

    result: Result
    serialized: bytes
    said: list[str]


class CompileWorkers:
    """The workers of one backend.

    command: compiles what it finds in its working folder.  seconds_max: how long it may take for
    one executable.
    """

    def __init__(self, command: Sequence[str], seconds_max: float) -> None:
        self._command = tuple(command)
        self._seconds_max = seconds_max
        self._processes = Processes()

    def compile(
        self,
        job: CompileJob,
        request: Struct,
        environment: Callable[[Path], Mapping[str, str]],
        furnish: Callable[[Path], None] = lambda folder: None,
    ) -> Answer:
        """Run a worker in a folder of its own.

        request: what the worker decodes.  environment: its variables, given that folder.  furnish:
        puts more files into the folder.

        Raises CompileError: AOTC-E902 it crashed, E903 it took too long; OSError if it had no room.
        """
        with temporary_folder(Path(tempfile.gettempdir()), "aotc-compile-", "") as folder:
            worker_folder.give(folder, request, job.module.artifact)
            furnish(folder)
            said = self._run(folder, job, environment(folder))
            return Answer(*worker_folder.take(folder), said)

    def stop(self) -> None:
        """Stop what is being compiled; running and later calls of `compile` raise StoppedError."""
        self._processes.stop()

    def _run(self, folder: Path, job: CompileJob, environment: Mapping[str, str]) -> list[str]:
        """Run a worker to its end; the lines it printed."""
        try:
            status, said = self._processes.run(
                self._command, folder, environment, self._seconds_max
            )
        except subprocess.TimeoutExpired as error:
            raise refusal(
                "AOTC-E903",
                place_of(job),
                "none",
                expected=f"an executable within {self._seconds_max:g} s",
            ) from error
        if status != 0 or not (folder / worker_folder.RESULT).exists():
            require_room(folder, status)
            last = pass_log.split(said)[1][-LINES_SHOWN:]
            raise refusal("AOTC-E902", place_of(job), quoted(describe_status(status), last))
        return said


def environment(**more: str) -> dict[str, str]:
    """The variables of a worker: none that could steer the compiler or change its memory layout,
    and those in `more`.
    """
    kept = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    if "PYTHONPATH" in os.environ:
        # Made absolute, since the worker runs in another folder.
        entries = os.environ["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(e).absolute()) for e in entries if e)
    return {
        **kept,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        **more,
    }


def memory_of(analysis: Mapping[str, int], code_bytes: int) -> Memory:
    """XLA's memory analysis as bundles record it. analysis: bytes by purpose."""
    return Memory(
        argument_bytes=analysis["argument"],
        output_bytes=analysis["output"],
        temp_bytes=analysis["temp"],
        alias_bytes=analysis["alias"],
        code_bytes=code_bytes,
    )


def cost_of(analysis: Mapping[str, Any]) -> Cost:
    """XLA's cost analysis as bundles record it. XLA says -1 for what it cannot count; here
    it is 0.
    """

    def count(key: str) -> int:
        return max(0, int(analysis.get(key, 0)))

    return Cost(
        flops=count("flops"),
        transcendentals=count("transcendentals"),
        bytes_accessed=count("bytes accessed"),
    )
