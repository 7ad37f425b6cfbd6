"""The tasks of a build: their keys, what the cache has of them, and why each one ran."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.base.msgpack_values import unpack
from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import is_digest, sha256

SCHEMA = "1"
"""Version of what entries hold. It is a part of every key, so that older entries are not found."""

FILES = ("file ", "source file ")
"""Prefixes of parts that are files. If such a part is gone, the program no longer reads the file,
which may still exist."""

CHANGED = "file of package "
"""Prefix of parts that are files of a package, changed after it was installed."""

type Parts = Mapping[str, str]
"""What a result depends on: names for people ("source file model.py"), to a digest or to a value
short enough to show ("0.12.0")."""


class Kind(StrEnum):
    """The tasks of a build, in their order."""

    CAPTURE = "capture"
    REFERENCE = "reference"
    EXECUTABLE = "executable"
    PARITY = "parity"
    EVALUATION = "evaluation"
    PACK = "pack"


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a build.

    `of` describes its result in messages and is not in the key: "predict[batch=8] for native".
    `parts` has everything that its result depends on.
    """

    kind: Kind
    of: str
    parts: Parts

    @property
    def name(self) -> str:
        """Return a name for the key's task: "executable predict[batch=8] for native"."""
        return f"{self.kind} {self.of}".rstrip()

    @property
    def key(self) -> str:
        """The digest of the canonical bytes of everything the result depends on."""
        return key_of(self.kind, self.parts)


def key_of(kind: str, parts: Parts) -> str:
    """Return a key of the cache: "sha256:…"."""
    return sha256(canonical_json.encode({"kind": kind, "parts": dict(parts), "schema": SCHEMA}))


def _change_text(part: str, before: str | None, now: str | None) -> str:
    """Describe a changed part of a key; `before` or `now` is None if it is missing on that side."""
    is_file = part.startswith(FILES) and not part.startswith(CHANGED)
    if is_file and None in (before, now):
        return f"{part} is {'now' if before is None else 'no longer'} read"
    if before is None or now is None:
        value = before or now or ""
        shown = "" if not value or is_digest(value) else f": {value}"
        return f"{part} {'added' if before is None else 'removed'}{shown}"
    if is_digest(before) or is_digest(now):
        return f"{part} changed"
    return f"{part} {before} -> {now}"


def changes(before: Parts, now: Parts) -> Iterator[str]:
    """Describe the components that differ, sorted by name.

    For a package of another version this is only the version, not the digest of its files.
    """
    differ = [part for part in before.keys() | now.keys() if before.get(part) != now.get(part)]
    for part in sorted(differ):
        if part.removeprefix("files of ") == part or part.removeprefix("files of ") not in differ:
            yield _change_text(part, before.get(part), now.get(part))


type Last = Mapping[str, Parts]
"""The last build's tasks, by name."""

FIRST = "not built before"
UNKNOWN = "the last build had no such task"
GONE = "nothing has changed, but its result is not in the cache any more"
OFF = "the cache is off"
ALWAYS = "every build does"

UNKEYED = (Kind.CAPTURE, Kind.PACK)
"""Tasks that run in every build. The parts of their keys only say what has changed."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that has ended.

    `reasons` are why it ran, none if the result was cached; `seconds` is how long it ran.
    """

    task: Task
    cached: bool
    reasons: tuple[str, ...]
    seconds: float


type OnDone = Callable[[Done], None]


class Tasks:
    """The tasks of one build. Threads may share it.

    `store` is None for no cache; `last` has the tasks of the last build of the same manifest.
    """

    def __init__(
        self, store: LocalStore | None, last: Last, on_done: OnDone = lambda done: None
    ) -> None:
        self.store = store
        self._last, self._on_done = last, on_done
        self._lock = threading.Lock()
        self._done: dict[str, Done] = {}

    def run[T](self, task: Task, type_: type[T], make: Callable[[], T]) -> T:
        """Return the result of a task from the cache, or of `make`."""
        found = self.recall(task.key, type_)
        if found is not None:
            self.note(task, cached=True)
            return found
        with self.timed(task) as keep:
            made = make()
            keep(made)
        return made

    @contextmanager
    def timed(self, task: Task) -> Iterator[Callable[[object], None]]:
        """Time a task that the block runs; yield a function that stores its result in the cache."""
        started = self.clock()
        yield lambda result: self.keep(task.key, result)
        self.note(task, cached=False, seconds=self.clock() - started)

    def clock(self) -> float:
        """Return a clock in seconds; only differences mean anything."""
        return time.perf_counter()

    def recall[T](self, key: str, type_: type[T]) -> T | None:
        """Return the decoded value under a key; None without one of this type."""
        data = self.store.get(key) if self.store else None
        with suppress(ValueError, RecursionError):  # MsgspecError, UnicodeDecodeError: ValueErrors
            return None if data is None else unpack(data, type_)
        return None

    def keep(self, key: str, value: object) -> None:
        """Store a value in the cache, if there is one."""
        if self.store:
            self.store.put(key, msgspec.msgpack.encode(value))

    def note(
        self, task: Task, *, cached: bool, seconds: float = 0.0, is_keyed: bool = True
    ) -> None:
        """Note that a task has ended; with `is_keyed`, another build may use its result."""
        reasons = (() if cached else self._reasons(task)) if is_keyed else (ALWAYS,)
        done = Done(task, cached, reasons, seconds)
        with self._lock:
            self._done[task.name] = done
        self._on_done(done)

    def done(self) -> tuple[Done, ...]:
        """Return every task, in the order of a build.

        A task that ran because the module changed also gives the reasons of the capture.
        """
        order = list(Kind)
        with self._lock:
            every = sorted(
                self._done.values(),
                key=lambda done: (order.index(done.task.kind), _by_number(done.task.of)),
            )
        capture = next((d.reasons for d in every if d.task.kind is Kind.CAPTURE), ())
        return tuple(replace(done, reasons=_expand_reason(done, capture)) for done in every)

    def record(self) -> Last:
        """Keep the parts of every task's key for the next build."""
        with self._lock:
            return {name: dict(done.task.parts) for name, done in sorted(self._done.items())}

    def _reasons(self, task: Task) -> tuple[str, ...]:
        before = self._last.get(task.name)
        if task.kind in UNKEYED:
            return tuple(changes(before or task.parts, task.parts)) or (ALWAYS,)
        if self.store is None:
            return (OFF,)
        if before is None:
            return (UNKNOWN,) if self._last else (FIRST,)
        return tuple(changes(before, task.parts)) or (GONE,)


def _by_number(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts batch=8 before batch=16."""
    parts = re.findall(r"\d+|\D+", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _expand_reason(done: Done, capture: tuple[str, ...]) -> tuple[str, ...]:
    """Expand "module changed" to "module changed: source file model.py changed"."""
    known = [reason for reason in capture if reason != ALWAYS]
    if not known:
        return done.reasons
    return tuple(
        f"{reason}: {', '.join(known)}" if reason.startswith("module") else reason
        for reason in done.reasons
    )


def restore_files(task: Task, folder: Path, tasks: Tasks) -> bool:
    """Write a task's cached files into a folder; return whether all were there, else write none."""
    kept = tasks.recall(task.key, dict[str, str])
    if kept is None or tasks.store is None:
        return False
    found: dict[str, bytes] = {}
    for name, digest in kept.items():
        data = tasks.store.get(digest)
        # Another builder whose key is trusted may have made the entry.
        if data is None or Path(name).name != name or name in ("", ".", "..") or "\0" in name:
            return False
        found[name] = data
    for name, data in found.items():
        (folder / name).write_bytes(data)
    return True


def keep_files(task: Task, folder: Path, patterns: Sequence[str], tasks: Tasks) -> None:
    """Store the files of a folder with these patterns in the cache, if there is one."""
    if tasks.store is None:
        return
    found: dict[str, str] = {}
    for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
        data = path.read_bytes()
        found[path.name] = sha256(data)
        tasks.store.put(found[path.name], data)
    tasks.keep(task.key, found)


class _Record(Struct, frozen=True):
    """One build.

    Attributes:
        manifest: The file that was built.
        tasks: The parts of every task's key, by name.
    """

    manifest: str
    tasks: dict[str, Parts]


@contextmanager
def open_tasks(
    store: LocalStore | None, manifest: Path, name: str, on_done: OnDone
) -> Iterator[tuple[Tasks, str]]:
    """Yield the tasks of a build, and a phrase for the earlier build that they are compared with.

    That is the last build of this manifest file or, without any, of a bundle with this name. If the
    block succeeds, its tasks are recorded for the next build. The cache is trimmed in any case.
    """
    if store is None:
        yield Tasks(None, {}, on_done), "nothing: the cache is off"
        return
    file = str(manifest.resolve())
    of_file, of_name = _place("manifest", file), _place("bundle", name)
    compared = "the last build of this manifest"
    last = _read(store, of_file)
    if last is None and (last := _read(store, of_name)) is not None:
        compared = f"the last build of a bundle named {name}, from {last.manifest}"
    if last is None:
        last = _Record(file, {})
        compared = (
            f"nothing: no build of this manifest, nor of a bundle named {name}, is known here"
        )
    tasks = Tasks(store, last.tasks, on_done)
    try:
        yield tasks, compared
        record = _Record(file, {**last.tasks, **tasks.record()})
        for place in (of_file, of_name):
            store.write_record(place, msgspec.json.encode(record, order="sorted"))
    finally:
        store.trim()


def _place(kind: str, of: str) -> str:
    digest = sha256(f"{kind}\0{of}".encode(errors="surrogateescape"))
    return digest.removeprefix("sha256:")


def _read(store: LocalStore, place: str) -> _Record | None:
    data = store.read_record(place)
    try:
        return msgspec.json.decode(data, type=_Record) if data else None
    except (ValueError, RecursionError):  # MsgspecError is a ValueError, UnicodeDecodeError, too
        return None
