"""What a compile worker and whoever started it leave for each other in the worker's folder:
`job.json` and `module.bin` go in, `result.json` and `executable.bin` come out.
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
    """What was made, beside the executable; or a problem, in the compiler's words.

    called: custom call targets of the module.  hlo_text: the optimized HLO.  memory: bytes by
    purpose.  randomized: whether address space randomization was on.  own_threads: whether loops
    were cut for this host's processors instead of the target's.  operations: of the StableHLO
    module, by name.  debug_options: how many of XLA's have another value than by default.
    evidence: of an executable that is opaque to us.
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
"""And the executable; no bytes if there is a problem."""


class ProblemError(Exception):
    """In the worker: nothing can be compiled. words, called: as in `Result`."""

    def __init__(self, problem: Problem, words: str, called: tuple[str, ...] = ()) -> None:
        super().__init__(words)
        self.result = Result(problem=problem, words=words, called=called)


def give(folder: Path, request: Struct, artifact: bytes) -> None:
    """Leave for a worker what to compile. request: what its `answer` decodes."""
    (folder / JOB).write_bytes(msgspec.json.encode(request))
    (folder / MODULE).write_bytes(artifact)


def take(folder: Path) -> Made:
    """What a worker left."""
    result = msgspec.json.decode((folder / RESULT).read_bytes(), type=Result)
    return result, (folder / EXECUTABLE).read_bytes()


def answer[Job: Struct](job_type: type[Job], compile_job: Callable[[Job, bytes], Made]) -> NoReturn:
    """In the worker: compile what is asked in the current folder, and end."""
    end_with_parent()
    job = msgspec.json.decode(Path(JOB).read_bytes(), type=job_type)
    result, serialized = compile_job(job, Path(MODULE).read_bytes())
    Path(EXECUTABLE).write_bytes(serialized)
    Path(RESULT).write_bytes(msgspec.json.encode(result))
    # Nothing that follows is of use, and taking a client or a plugin down takes time.
    sys.stdout.flush()
    os._exit(0)


def telling[**P](compile_job: Callable[P, Made]) -> Callable[P, Made]:
    """Of a function that raises ProblemError, one that gives the problem."""

    @wraps(compile_job)
    def told(*args: P.args, **kwargs: P.kwargs) -> Made:
        try:
            return compile_job(*args, **kwargs)
        except ProblemError as error:
            return error.result, b""

    return told
