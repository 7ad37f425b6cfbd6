"""Measured figures, as values: messages to the workers of `aotc bench`, and their answers."""

from msgspec import Struct

from aotc_runtime.schema.manifest_labels import ExecutableKey


class Work(Struct, frozen=True):
    """Calls of one executable. inputs: .npy files, in the order of the entry point's inputs."""

    executable: ExecutableKey
    inputs: list[str]


class Job(Struct, frozen=True):
    """The job of a worker.

    `bundle` and `trust` are paths; `seconds` is the time of calls per measurement; `threads` has
    numbers of caller threads, none for a cold start.
    """

    bundle: str
    trust: str
    target: str
    work: list[Work]
    seconds: float
    threads: list[int]


class Cold(Struct, frozen=True):
    """The first calls of a fresh process.

    `stages` are seconds by stage, in order, from starting the process to being ready; `first` is
    microseconds of the first call.
    """

    executable: ExecutableKey
    stages: dict[str, float]
    first: float


class Steady(Struct, frozen=True):
    """One executable after its warm-up, as the document has it.

    `latency` has microseconds per call on one thread and the number of calls; `throughput` has the
    calls per second of several threads at once.
    """

    executable: ExecutableKey
    latency: dict[str, int | float]
    throughput: list[dict[str, int | float]]


class Answer(Struct, frozen=True):
    """The figures of a worker: of a cold start, or of all executables in one process.

    `peak_bytes` is resident memory at its highest, None where the system does not tell.
    """

    peak_bytes: int | None
    cold: Cold | None = None
    steady: list[Steady] = []
    compilations: int = 0
