"""What the probing process is told and what it answers."""

from __future__ import annotations

from msgspec import Struct


class Job(Struct, frozen=True):
    """manifest: as `aotc.config.manifest_values` encodes it.  sizes: what to trace the entry point
    at.
    """

    manifest: bytes
    entry_point: str
    sizes: list[dict[str, int]]


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
