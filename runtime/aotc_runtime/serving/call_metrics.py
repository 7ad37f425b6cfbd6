"""Metrics of an entry point: calls by path, padding, shapes, errors."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.bundle_manifest import engine_of
from aotc_runtime.serving.served_call import CallCounter

SizesKey = tuple[tuple[str, int], ...]
"""Dimensions and their sizes, sorted."""

SHAPES_MAX = 4096
"""Combinations of sizes that are reported, the most frequent ones."""


class Path(StrEnum):
    """The way in which a call was served.

    By a profile of its sizes, by an executable for every size, padded, split into parts, or by an
    executable that was compiled in this process.
    """

    EXACT = "exact"
    RANGE = "range"
    PAD = "pad"
    SPLIT = "split"
    COMPILED = "compiled"


class Answer(Struct, frozen=True):
    """The result of a call, with the label of the executable that did most of it."""

    result: Any
    path: Path
    executable: str


class Latency(Struct, frozen=True):
    """Calls served, their time together (seconds) and how many took at most each bound (seconds).

    `bounds` are powers of two nanoseconds, those between the fastest and the slowest call.
    """

    calls: int
    seconds: float
    bounds: tuple[float, ...]
    cumulative: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the counters as JSON-able values."""
        return {
            "calls": self.calls,
            "seconds": self.seconds,
            "at_most": [
                {"seconds": bound, "calls": count}
                for bound, count in zip(self.bounds, self.cumulative, strict=True)
            ],
        }


def latency_of(*counters: CallCounter) -> Latency:
    """Return a consistent snapshot of the latencies that each has counted, together."""
    times, counts = zip(*[counter.snapshot() for counter in counters], strict=True)
    nanoseconds, buckets = sum(times), [sum(each) for each in zip(*counts, strict=True)]
    used = [index for index, count in enumerate(buckets) if count]
    shown = range(used[0], used[-1] + 1) if used else range(0)
    return Latency(
        calls=sum(buckets),
        seconds=nanoseconds / 1e9,
        bounds=tuple(2**index / 1e9 for index in shown),
        cumulative=tuple(sum(buckets[: index + 1]) for index in shown),
    )


class ServedCalls(Struct, frozen=True):
    """Calls by one path, with the label of the executable; for a split, of its largest part."""

    path: Path
    executable: str
    latency: Latency


class Padding(Struct, frozen=True):
    """The padding of one call, or of several together.

    `elements` are those of the padded inputs before padding, and `filled` those that were added.
    `flops` are estimated from XLA's count for the profile, by the part of its elements that was
    filled.
    """

    elements: int = 0
    filled: int = 0
    flops: int = 0

    def __add__(self, other: Padding) -> Padding:
        return Padding(
            self.elements + other.elements, self.filled + other.filled, self.flops + other.flops
        )


def most_frequent(counts: Counter[SizesKey]) -> tuple[Counter[SizesKey], int]:
    """Return the SHAPES_MAX most frequent sizes, and the number of other calls."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    dropped = sum(count for _, count in ranked[SHAPES_MAX:])
    return Counter(dict(ranked[:SHAPES_MAX])), dropped


class Counted(Struct, frozen=True):
    """Counts calls of one combination of sizes; the call path does this without a lock."""

    sizes: SizesKey
    label: str
    counter: CallCounter
    path: Path = Path.EXACT


class CallMetrics:
    """All metrics of one entry point; safe to use from many threads.

    `counted` are the profiles, which count for themselves. `compiles` returns as JSON what was
    compiled for calls, and None without a policy that compiles.
    """

    compiles: Callable[[], dict[str, Any] | None] = staticmethod(lambda: None)

    def __init__(self, counted: Sequence[Counted]) -> None:
        self._counted = [*counted]
        self._lock = threading.Lock()
        self._counters: dict[tuple[Path, str], CallCounter] = {}
        self._padding = Padding()
        self._padded_calls = 0
        self._parts = 0
        self._refusals: Counter[str] = Counter()
        self._conversions: Counter[str] = Counter()
        self._shapes: Counter[SizesKey] = Counter()
        self._dropped = 0

    def count(
        self, path: Path, executable: str, padding: Padding | None, parts: int, nanoseconds: int
    ) -> None:
        """Count an out-of-profile call, split into this many `parts`, 0 for none."""
        with self._lock:
            counter = self._counters.setdefault((path, executable), CallCounter())
            self._parts += parts
            if padding is not None:
                self._padded_calls += 1
                self._padding += padding
        counter.observe(nanoseconds)

    def add(self, counted: Counted) -> None:
        """Report calls that count for themselves from now on."""
        self._counted.append(counted)

    def count_sizes(self, sizes: SizesKey) -> None:
        """Count sizes that no profile has and that were asked for, served or refused."""
        with self._lock:
            self._shapes[sizes] += 1
            if len(self._shapes) > 2 * SHAPES_MAX:
                self._shapes, dropped = most_frequent(self._shapes)
                self._dropped += dropped

    def count_refusal(self, code: str) -> None:
        """Count a refusal."""
        with self._lock:
            self._refusals[code] += 1

    def count_conversion(self, given: Device, taken: Device) -> None:
        """Count an array that lay with one engine and went to another by the host."""
        which = f"{engine_of(given.platform)} to {engine_of(taken.platform)}"
        with self._lock:
            self._conversions[which] += 1

    @property
    def conversions(self) -> dict[str, int]:
        """Arrays that went from one engine to another, by both."""
        with self._lock:
            return dict(sorted(self._conversions.items()))

    @property
    def refusals(self) -> dict[str, int]:
        """Return the number of rejected calls by error code."""
        with self._lock:
            return dict(sorted(self._refusals.items()))

    @property
    def calls(self) -> dict[str, int]:
        """Calls served, by the executable that did most of it."""
        counts: Counter[str] = Counter()
        for each in self.served_calls():
            counts[each.executable] += each.latency.calls
        return dict(counts)

    def served_calls(self) -> list[ServedCalls]:
        """Calls served, by path and executable."""
        counters = [((each.path, each.label), each.counter) for each in self._counted]
        with self._lock:
            counters += sorted(self._counters.items())
        alike: dict[tuple[Path, str], list[CallCounter]] = {}
        for key, counter in counters:
            alike.setdefault(key, []).append(counter)
        return [ServedCalls(*key, latency_of(*each)) for key, each in alike.items()]

    @property
    def padding(self) -> Padding:
        """The padding of all calls together."""
        with self._lock:
            return self._padding

    def report(self) -> dict[str, Any]:
        """JSON of everything that was counted."""
        served = self.served_calls()
        paths: dict[str, dict[str, Any]] = {path.value: {} for path in Path}
        for each in served:
            paths[each.path.value][each.executable] = each.latency.to_json()
        with self._lock:
            padded_calls, padding, parts = self._padded_calls, self._padding, self._parts
        return {
            "calls": self.calls,
            "paths": paths,
            "padding": {
                "calls": padded_calls,
                "elements": padding.elements,
                "filled": padding.filled,
                "overhead": padding.filled / padding.elements if padding.elements else 0.0,
                "flops": padding.flops,
            },
            "splits": {
                "calls": sum(each.latency.calls for each in served if each.path is Path.SPLIT),
                "parts": parts,
            },
            "refusals": self.refusals,
            "conversions": self.conversions,
            **self._requested_sizes(),
            "compiles": self.compiles(),
        }

    def _requested_sizes(self) -> dict[str, Any]:
        """Requested sizes with their counts, as `aotc profiles suggest` reads them."""
        with self._lock:
            counts, dropped = self._shapes.copy(), self._dropped
        for each in self._counted:
            if each.sizes and (calls := latency_of(each.counter).calls):
                counts[each.sizes] += calls
        kept, more = most_frequent(counts)
        shapes = [{"sizes": dict(sizes), "count": calls} for sizes, calls in kept.items()]
        return {"shapes": shapes, "shapes_dropped": dropped + more}
