"""The files that a compile worker and its parent exchange in the worker's folder: `job.json` and
`module.bin` go in, `result.json` and `executable.bin` come out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import NoReturn

import msgspec
from msgspec import Struct

from aotc.constants import FULL, NO_ROOM
from aotc.evidence import ExecutableEvidence
from aotc.processes import end_with_parent

JOB, MODULE = "job.json", "module.bin"
RESULT, EXECUTABLE = "result.json", "executable.bin"


class Problem(StrEnum):
    """Why nothing was compiled: what the program, the target or the installed jaxlib lacks."""

    NONE = ""
    PROGRAM = "program"
    TARGET = "target"
    JAXLIB = "jaxlib"


class Result(Struct, frozen=True, forbid_unknown_fields=True):
    """What a worker found out about an executable; or a problem, in the compiler's words.

    called: custom call targets of the module.  hlo_text: the optimized HLO.  memory: bytes by
    purpose.  randomized: whether address space randomization was on.  own_threads: whether loops
    were split for this host's CPUs instead of the target's threads.  operations: of the StableHLO
    module, by name.  debug_options: how many of XLA's differ from their defaults.  evidence: made
    by the worker where the parent cannot read it from the executable.
    """

    problem: Problem = Problem.NONE
    words: str = ""
    called: tuple[str, ...] = ()
    compile_seconds: float = 0.0
    hlo_text: str = ""
    memory: dict[str, int] = {}
    cost: dict[str, float] = {}
    randomized: bool = False
    own_threads: bool = False
    operations: dict[str, int] = {}
    debug_options: int = 0
    evidence: ExecutableEvidence | None = None


type Made = tuple[Result, bytes]
"""The result and the serialized executable, which is empty if there is a problem."""


class ProblemError(Exception):
    """In the worker: nothing can be compiled. words, called: as in `Result`."""

    def __init__(self, problem: Problem, words: str, called: tuple[str, ...] = ()) -> None:
        super().__init__(words)
        self.result = Result(problem=problem, words=words, called=called)


def give(folder: Path, request: Struct, artifact: bytes) -> None:
    """Write what a worker is to compile. request: what its `answer` decodes."""
    (folder / JOB).write_bytes(msgspec.json.encode(request))
    (folder / MODULE).write_bytes(artifact)


def take(folder: Path) -> Made:
    """Read what a worker wrote."""
    result = msgspec.json.decode((folder / RESULT).read_bytes(), type=Result)
    return result, (folder / EXECUTABLE).read_bytes()


def answer[Job: Struct](job_type: type[Job], compile_job: Callable[[Job, bytes], Made]) -> NoReturn:
    """In the worker: compile as the current folder asks, write the result, and end the process."""
    end_with_parent()
    job = msgspec.json.decode(Path(JOB).read_bytes(), type=job_type)
    result, serialized = compile_job(job, Path(MODULE).read_bytes())
    status = 0
    try:
        Path(EXECUTABLE).write_bytes(serialized)
        Path(RESULT).write_bytes(msgspec.json.encode(result))
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in FULL:
            raise
        status = NO_ROOM
    # Ending here saves the time that it takes to shut down a client or a plugin.
    os._exit(status)


def problem_as_result[**P](compile_job: Callable[P, Made]) -> Callable[P, Made]:
    """Decorates a function that raises ProblemError, to return the problem as a result instead."""

    @wraps(compile_job)
    def answered(*args: P.args, **kwargs: P.kwargs) -> Made:
        try:
            return compile_job(*args, **kwargs)
        except ProblemError as error:
            return error.result, b""

    return answered
