"""Which requests take so little time that they are answered in the event loop itself."""

from __future__ import annotations

QUICK_SECONDS = 0.001
"""A request that takes less is answered in the event loop itself: handing it to a thread and back
costs more than it holds others up.
"""
ALONE_SECONDS = 0.00025
"""Where requests are joined, those that take less than this are answered alone in the event loop:
waiting for others and two changes of thread cost more than what is saved of a call.
"""
QUICK_BYTES, QUICK_MOST = 2**21, 1024

Kind = tuple[str, str, int]
"""Model, version and bytes: requests that take about the same time."""


class Quick:
    """Which kinds of requests have been quick. Threads add to it, the event loop asks."""

    def __init__(self) -> None:
        self._seconds: dict[Kind, float] = {}

    def holds(self, kind: Kind, limit: float = QUICK_SECONDS) -> bool:
        """Whether such requests have been taking less than so many seconds."""
        return self._seconds.get(kind, 1.0) < limit

    def took(self, kind: Kind, seconds: float) -> None:
        """One that took long counts for many that did not."""
        if kind[2] > QUICK_BYTES:
            return
        known = self._seconds.get(kind)
        if known is None and len(self._seconds) >= QUICK_MOST:
            self._seconds.clear()
        self._seconds[kind] = seconds if known is None else 0.75 * known + 0.25 * seconds

    def took_in_batch(self, kind: Kind, seconds: float) -> None:
        """A call that served it, perhaps with others, took so long. That is more than it takes
        alone, which is tried now and then; but never where a call is long.
        """
        known = self._seconds.get(kind)
        if known is None or seconds >= QUICK_SECONDS:
            self.took(kind, seconds)
        else:
            self._seconds[kind] = FORGOTTEN * known


FORGOTTEN = 0.98
"""What is left with each call of what is known about a kind that has not been quick."""
