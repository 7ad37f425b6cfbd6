"""Measured figures, as values: messages to the workers of `aotc bench`, and their answers."""

from __future__ import annotations

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
    """One fresh process that made its first calls.

    stages: seconds by stage, in order, from starting the process to being ready.  first:
    microseconds of the first call.  peak_bytes: resident memory at its highest after it, None where
    the system does not tell.
    """

    executable: ExecutableKey
    stages: dict[str, float]
    first: float
    peak_bytes: int | None


class Latency(Struct, frozen=True):
    """Microseconds per call on one thread."""

    p50: float
    p90: float
    p99: float
    calls: int


class Throughput(Struct, frozen=True):
    """Calls from several threads at once."""

    threads: int
    calls_per_second: float


class Steady(Struct, frozen=True):
    """One executable after its warm-up."""

    executable: ExecutableKey
    latency: Latency
    throughput: list[Throughput]


class SteadyRun(Struct, frozen=True):
    """All executables, in one process."""

    steady: list[Steady]
    compilations: int
    peak_bytes: int | None


class Answer(Struct, frozen=True):
    """A worker's figures: one of the two."""

    cold: Cold | None = None
    steady: SteadyRun | None = None
