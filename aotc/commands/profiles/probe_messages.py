"""Messages to the probing process, and its answer."""

from __future__ import annotations

from msgspec import Struct

from aotc.base.workers.confined_process import ProcessLimits


class Job(Struct, frozen=True):
    """manifest: as `aotc.config.build_manifest` encodes it.  sizes: what to trace the entry point
    at.
    limits: what the process may use, where it runs nothing that a user wrote.
    """

    manifest: bytes
    entry_point: str
    sizes: list[dict[str, int]]
    limits: ProcessLimits | None = None


class Probe(Struct, frozen=True):
    """XLA's cost analysis before optimization, of one call, all steps of loops included.

    open_loops: loops of which one step is counted, since how many there are is not known.
    """

    sizes: dict[str, int]
    flops: float
    transcendentals: float
    bytes_accessed: float
    open_loops: int


class Answer(Struct, frozen=True):
    """In the order of the sizes."""

    probes: list[Probe]
