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


class CallCounter:
    """Counts the calls that one executable served; safe to use from many threads."""

    __slots__ = ("_buckets", "_calls", "_lock", "_nanoseconds")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forget what was counted."""
        with self._lock:
            self._calls = 0
            self._nanoseconds = 0
            self._buckets = [0] * BUCKETS

    def observe(self, nanoseconds: int) -> None:
        """Count one call."""
        bucket = nanoseconds.bit_length()
        with self._lock:
            self._calls += 1
            self._nanoseconds += nanoseconds
            self._buckets[bucket if bucket < BUCKETS else BUCKETS - 1] += 1

    @property
    def calls(self) -> int:
        return self._calls

    def latency(self) -> Latency:
        """A consistent picture of this moment."""
        with self._lock:
            calls, nanoseconds, buckets = self._calls, self._nanoseconds, list(self._buckets)
        used = [index for index, count in enumerate(buckets) if count]
        shown = range(used[0], used[-1] + 1) if used else range(0)
        return Latency(
            calls=calls,
            seconds=nanoseconds / 1e9,
            bounds=tuple(2**index / 1e9 for index in shown),
            cumulative=tuple(sum(buckets[: index + 1]) for index in shown),
        )
