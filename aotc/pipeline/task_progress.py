"""Progress of a build: tasks counted by stage as they end, in whatever thread."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable

from aotc.pipeline.cached_tasks import Done, Kind, OnDone

type OnStage = Callable[[str, int, int], None]
"""Progress: stage name, items done, items in all (0 if unknown)."""

STAGES = {Kind.REFERENCE: "reference", Kind.EXECUTABLE: "compile", Kind.PARITY: "parity"}
"""The stage that each kind of task counts for. The capture counts its entry points itself."""


class Meter:
    """Counts tasks by stage, and when they ran; of plain JAX, which is one task, its trials."""

    def __init__(self, on_stage: OnStage, on_done: OnDone) -> None:
        self._on_stage, self._on_done = on_stage, on_done
        self._lock = threading.Lock()
        self._done: Counter[str] = Counter()
        self._total: dict[str, int] = {}
        self._finished: set[Kind] = set()
        self._spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)

    def expect(self, kind: Kind, total: int) -> None:
        """Say how many tasks of this kind there will be."""
        with self._lock:
            stage = STAGES[kind]
            self._total[stage] = total
            if total:
                self._on_stage(stage, min(self._done[stage], total), total)

    def step(self, kind: Kind) -> None:
        """Count a finished part of the only task of this kind, out of `expect`'s number."""
        with self._lock:
            stage = STAGES[kind]
            total = self._total.get(stage, 0)
            self._done[stage] = min(self._done[stage] + 1, max(total - 1, 0))
            self._on_stage(stage, self._done[stage], total)

    def finish(self, kind: Kind) -> None:
        """Count no more tasks of this kind: the candidates of `--tune` are executables as well."""
        with self._lock:
            self._finished.add(kind)

    def done(self, done: Done) -> None:
        """Count a finished task."""
        with self._lock:
            stage = STAGES.get(done.task.kind)
            if stage and done.task.kind not in self._finished:
                is_only = done.task.kind is Kind.REFERENCE
                self._done[stage] = self._total.get(stage, 1) if is_only else self._done[stage] + 1
                ended = time.perf_counter()
                self._spans[stage].append((ended - done.seconds, ended))
                self._on_stage(stage, self._done[stage], self._total.get(stage, 0))
            self._on_done(done)

    def seconds(self, kind: Kind) -> float:
        """Return seconds during which at least one task of this kind was running.

        The time from a stage's first task to its last would say less: tasks of other kinds run in
        between.
        """
        with self._lock:
            spans = sorted(self._spans[STAGES[kind]])
        total, until = 0.0, float("-inf")
        for begin, end in spans:
            total += max(0.0, end - max(begin, until))
            until = max(until, end)
        return total
