"""Results of compile workers."""

from collections.abc import Callable
from enum import StrEnum
from functools import wraps

from msgspec import Struct

from aotc.base.evidence import ExecutableEvidence


class Problem(StrEnum):
    """The reason why nothing was compiled: a lack of the program, the target or jaxlib."""

    NONE = ""
    PROGRAM = "program"
    TARGET = "target"
    JAXLIB = "jaxlib"


class Result(Struct, frozen=True, forbid_unknown_fields=True):
    """An executable and its facts from a worker; or a problem, in the compiler's words.

    `called` has the custom call targets of the module, `hlo_text` the optimized HLO, `memory` bytes
    by purpose and `operations` those of the StableHLO module, by name. `randomized` tells whether
    address space randomization was on, `own_threads` whether loops were split for this host's CPUs
    instead of the target's threads. `debug_options` counts XLA's options that differ from their
    defaults, `added_options` are those that the worker chose. `evidence` is made by the worker if
    the parent cannot read it from the executable.
    """

    serialized: bytes = b""
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
    added_options: dict[str, str] = {}
    evidence: ExecutableEvidence | None = None


class ProblemError(Exception):
    """The compile worker cannot compile; `words` and `called` are as in `Result`."""

    def __init__(self, problem: Problem, words: str, called: tuple[str, ...] = ()) -> None:
        super().__init__(words)
        self.result = Result(problem=problem, words=words, called=called)


def problem_as_result[**P](compile_job: Callable[P, Result]) -> Callable[P, Result]:
    """Decorate a function so that it returns the problem of a ProblemError as a result."""

    @wraps(compile_job)
    def answered(*args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            return compile_job(*args, **kwargs)
        except ProblemError as error:
            return error.result

    return answered
