"""What an entry point counts: calls and their latency by executable, refusals by code."""

from __future__ import annotations

import threading
from typing import Any

from msgspec import Struct

BUCKETS = 40
"""Powers of two nanoseconds: the last holds everything above nine minutes."""


class Latency(Struct, frozen=True):
    """Calls served, their time together (seconds) and how many took at most each bound (seconds).

    bounds: powers of two nanoseconds, those between the fastest and the slowest call.
    """

    calls: int
    seconds: float
    bounds: tuple[float, ...]
    cumulative: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "seconds": self.seconds,
            "at_most": [
                {"seconds": bound, "calls": count}
                for bound, count in zip(self.bounds, self.cumulative, strict=True)
            ],
        }


PENDING_MAX = 1024
"""How many latencies may wait to be sorted into buckets."""


class CallCounter:
    """Counts the calls that one executable served; safe to use from many threads.

    A call only appends to a list, which needs no lock of ours; whoever reads, and every
    PENDING_MAX-th call, sorts what has gathered.
    """

    __slots__ = ("_buckets", "_calls", "_lock", "_nanoseconds", "_pending")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[int] = []
        self.reset()

    def reset(self) -> None:
        """Forget what was counted."""
        with self._lock:
            self._pending.clear()
            self._calls = 0
            self._nanoseconds = 0
            self._buckets = [0] * BUCKETS

    def observe(self, nanoseconds: int) -> None:
        """Count one call."""
        pending = self._pending
        pending.append(nanoseconds)
        if len(pending) >= PENDING_MAX:
            with self._lock:
                self._sort()

    def _sort(self) -> None:
        """Take what has gathered by now; other threads go on appending behind it."""
        gathered = self._pending[:]
        del self._pending[: len(gathered)]
        self._calls += len(gathered)
        self._nanoseconds += sum(gathered)
        for nanoseconds in gathered:
            self._buckets[min(nanoseconds.bit_length(), BUCKETS - 1)] += 1

    @property
    def calls(self) -> int:
        with self._lock:
            return self._calls + len(self._pending)

    def latency(self) -> Latency:
        """A consistent picture of this moment."""
        with self._lock:
            self._sort()
            calls, nanoseconds, buckets = self._calls, self._nanoseconds, list(self._buckets)
        used = [index for index, count in enumerate(buckets) if count]
        shown = range(used[0], used[-1] + 1) if used else range(0)
        return Latency(
            calls=calls,
            seconds=nanoseconds / 1e9,
            bounds=tuple(2**index / 1e9 for index in shown),
            cumulative=tuple(sum(buckets[: index + 1]) for index in shown),
        )
