"""Tasks of one build: looked up before they are run, and a record of which were and why."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec

from aotc.cache.keys import Kind, Parts, Task, changes
from aotc.cache.store import Store

type Last = Mapping[str, Parts]
"""The last build's tasks, by name."""

FIRST = "not built before"
UNKNOWN = "the last build had no such task"
GONE = "nothing has changed, but its result is not in the cache any more"
OFF = "the cache is off"
NOT_KEPT = "its result of the last build was not kept"
"""Also a part, of a task whose result is never kept; no key is ever looked up that has it."""

ALWAYS = ("every build does",)


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a task. reasons: why it ran; none if it did not.  seconds: of running it."""

    task: Task
    cached: bool
    reasons: tuple[str, ...]
    seconds: float


type OnDone = Callable[[Done], None]


class Tasks:
    """The tasks of one build. Threads may share it.

    store: None for no cache.  last: what the last build of the same manifest did.
    """

    def __init__(
        self, store: Store | None, last: Last, on_done: OnDone = lambda done: None
    ) -> None:
        self.store = store
        self._last, self._on_done = last, on_done
        self._lock = threading.Lock()
        self._done: dict[str, Done] = {}

    def run[T](self, task: Task, type_: type[T], make: Callable[[], T]) -> T:
        """The result of a task: the one in the cache, or a new one. Whatever `make` raises."""
        found = self.recall(task.key, type_)
        if found is not None:
            self.note(task, cached=True)
            return found
        with self.timed(task) as keep:
            made = make()
            keep(made)
        return made

    @contextmanager
    def timed(self, task: Task, why: tuple[str, ...] = ()) -> Iterator[Callable[[object], None]]:
        """Note that a task is run, and how long it takes; gives a function to keep its result.

        why: as of `note`.
        """
        started = self.clock()
        yield lambda result: self.keep(task.key, result)
        self.note(task, cached=False, seconds=self.clock() - started, why=why)

    def clock(self) -> float:
        """Seconds, to take the difference of two."""
        return time.perf_counter()

    def recall[T](self, key: str, type_: type[T]) -> T | None:
        """What is in the cache, decoded; None if it is not there, or nobody understands it."""
        data = self.store.get(key) if self.store else None
        return None if data is None else _decoded(data, type_)

    def recall_every[T](self, key: str, type_: type[T]) -> Iterator[T]:
        """As `recall`, of a key under which builds elsewhere may have put others."""
        for data in self.store.every(key) if self.store else ():
            found = _decoded(data, type_)
            if found is not None:
                yield found

    def keep(self, key: str, value: object) -> None:
        """Put a value into the cache, if there is one."""
        if self.store:
            self.store.put(key, msgspec.msgpack.encode(value))

    def note(
        self, task: Task, *, cached: bool, seconds: float = 0.0, why: tuple[str, ...] = ()
    ) -> None:
        """Record what became of a task. why: it ran, if that is known better than from its key."""
        reasons = () if cached else why or self._reasons(task)
        done = Done(task, cached, reasons, seconds)
        with self._lock:
            self._done[task.name] = done
        self._on_done(done)

    def done(self) -> tuple[Done, ...]:
        """Every task, in the order of a build; what follows from another task says from what."""
        order = list(Kind)
        with self._lock:
            every = sorted(
                self._done.values(),
                key=lambda done: (order.index(done.task.kind), _by_number(done.task.of)),
            )
        capture = next((d.reasons for d in every if d.task.kind is Kind.CAPTURE), ())
        return tuple(replace(done, reasons=_traced_back(done, capture)) for done in every)

    def record(self) -> Last:
        """For the next build: the parts of every task's key."""
        with self._lock:
            return {name: dict(done.task.parts) for name, done in sorted(self._done.items())}

    def _reasons(self, task: Task) -> tuple[str, ...]:
        if self.store is None:
            return (OFF,)
        before = self._last.get(task.name)
        if before is None:
            return (UNKNOWN,) if self._last else (FIRST,)
        if NOT_KEPT in before:
            return (NOT_KEPT,)
        return tuple(map(str, changes(before, task.parts))) or (GONE,)


def _by_number(text: str) -> list[tuple[int, str]]:
    """To sort batch=8 before batch=16."""
    parts = re.findall(r"\d+|\D+", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _decoded[T](data: bytes, type_: type[T]) -> T | None:
    try:
        return msgspec.msgpack.decode(data, type=type_)
    except msgspec.MsgspecError:
        return None


def _traced_back(done: Done, capture: tuple[str, ...]) -> tuple[str, ...]:
    """ "module changed" becomes "module changed: source file model.py changed"."""
    known = [reason for reason in capture if reason not in (FIRST, UNKNOWN, GONE, OFF)]
    if not known:
        return done.reasons
    return tuple(
        f"{reason}: {', '.join(known)}" if reason == "module changed" else reason
        for reason in done.reasons
    )
