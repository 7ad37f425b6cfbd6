"""Which requests take so little time that they are answered in the event loop itself."""

from __future__ import annotations

from time import monotonic

QUICK_SECONDS = 0.001
"""A request that takes less is answered in the event loop itself: handing it to a thread and back
costs more than it holds others up.
"""
ALONE_SECONDS = 0.00025
"""Where requests are joined, those that take less than this are answered alone in the event loop:
waiting for others and two changes of thread cost more than what is saved of a call.
"""
QUICK_BYTES, QUICK_MOST = 2**21, 1024

HELD_SECONDS, BARRED_TIMES = 0.01, 100
"""A request that holds the event loop for longer keeps those for its model out of it, for so many
times as long: at most a hundredth of the time is lost to requests that only look like quick ones.
"""

type Shapes = tuple[tuple[int, ...], ...]

type Kind = tuple[str, str, int | Shapes]
"""Model, version and bytes, or shapes: requests that take about the same time."""


class Quick:
    """Which kinds of requests have been quick. Threads add to it, the event loop asks."""

    def __init__(self) -> None:
        self._seconds: dict[Kind, float] = {}
        # Until when, by model.
        self._barred: dict[str, float] = {}

    def holds(self, kind: Kind, limit: float = QUICK_SECONDS) -> bool:
        """Whether such requests have been taking less than so many seconds."""
        if self._seconds.get(kind, 1.0) >= limit:
            return False
        return not self._barred or self._barred.get(kind[0], 0.0) <= monotonic()

    def held(self, name: str, seconds: float) -> None:
        """Note for how long a request for a model has held the event loop, whatever came of it."""
        if seconds > HELD_SECONDS:
            self._barred[name] = monotonic() + BARRED_TIMES * seconds

    def took(self, kind: Kind, seconds: float) -> None:
        """One that took long counts for many that did not."""
        if isinstance(kind[2], int) and kind[2] > QUICK_BYTES:
            return
        known = self._seconds.get(kind)
        if known is None and len(self._seconds) >= QUICK_MOST:
            self._seconds.clear()
        self._seconds[kind] = seconds if known is None else 0.75 * known + 0.25 * seconds

    def took_in_a_line(self, kind: Kind, seconds: float) -> None:
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
