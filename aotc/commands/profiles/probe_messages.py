"""Messages to the probing process, and its answer."""

from __future__ import annotations

from msgspec import Struct

from aotc.base.workers.confined_process import ProcessLimits


class Job(Struct, frozen=True):
    """The job of the worker.

    `manifest` is as `aotc.config.build_manifest` encodes it; `sizes` are those to trace; `limits`
    apply where no code of users runs.
    """

    manifest: bytes
    entry_point: str
    sizes: list[dict[str, int]]
    limits: ProcessLimits | None = None


class CallCost(Struct, frozen=True):
    """The cost of one call by XLA's analysis before optimization, with all steps of loops.

    work: floating-point operations, transcendental functions and bytes accessed, all alike.
    open_loops: loops of which one step is counted, since how many there are depends on values.
    """

    work: float = 0.0
    open_loops: int = 0

    def __add__(self, other: CallCost) -> CallCost:
        return CallCost(self.work + other.work, self.open_loops + other.open_loops)

    def times(self, number: int) -> CallCost:
        """Multiply the counts; a loop that is counted once stays one loop."""
        return CallCost(self.work * number, self.open_loops)


class Answer(Struct, frozen=True):
    """In the order of the sizes."""

    costs: list[CallCost]
