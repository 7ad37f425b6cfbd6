"""Records of the last build, which tell why a task of this one is run (`--explain`), and of the
tasks of one that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.pipeline.cache.cache_store import Cache
from aotc.pipeline.cached_tasks import Done, OnDone, Parts, Tasks, Undone
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError

OFF = "nothing: the cache is off"


class _Record(Struct, frozen=True):
    """manifest: the file that was built.  tasks: the parts of every task's key, by name."""

    manifest: str
    tasks: dict[str, Parts]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """done: with a result, which the next build finds in the cache.  undone: those without.
    compared: with which earlier build, in words.
    """

    done: tuple[Done, ...]
    undone: tuple[Undone, ...]
    compared: str


type OnFailed = Callable[[Unfinished], None]


@contextmanager
def open_tasks(
    store: Cache | None, manifest: Path, name: str, on_done: OnDone, on_failed: OnFailed
) -> Iterator[tuple[Tasks, str]]:
    """The tasks of a build, and in words the earlier build that they are compared with: the last
    one of this manifest file or, without any, the last one of a bundle with this name.

    If the block succeeds, what the tasks were is recorded for the next build. on_failed: told of
    them if findings end it, when nothing of them runs any more. Either way, the cache is trimmed to
    its limit in the end.
    """
    file = str(manifest.resolve())
    places = [_place("manifest", file), _place("bundle", name)]
    of_file, of_name = (_read(store, place) if store else None for place in places)
    last = of_file or of_name
    tasks = Tasks(store, last.tasks if last else {}, on_done)
    compared = _compared(store, of_file, of_name, name)
    try:
        yield tasks, compared
        if store:
            kept = {**(last.tasks if last else {}), **tasks.record()}
            data = msgspec.json.encode(_Record(file, kept), order="sorted")
            for place in places:
                store.write_record(place, data)
    except AotcError:
        on_failed(Unfinished(tasks.done(), tasks.undone(), compared))
        raise
    finally:
        if store:
            store.trim()


def _compared(
    store: Cache | None, of_file: _Record | None, of_name: _Record | None, name: str
) -> str:
    if store is None:
        return OFF
    if of_file:
        return "the last build of this manifest"
    if of_name:
        return f"the last build of a bundle named {name}, from {of_name.manifest}"
    return f"nothing: no build of this manifest, nor of a bundle named {name}, is known here"


def _place(kind: str, of: str) -> str:
    digest = sha256(f"{kind}\0{of}".encode(errors="surrogateescape"))
    return digest.removeprefix("sha256:")


def _read(store: Cache, place: str) -> _Record | None:
    data = store.read_record(place)
    try:
        return msgspec.json.decode(data, type=_Record) if data else None
    except (ValueError, RecursionError):  # MsgspecError is a ValueError, UnicodeDecodeError, too
        return None
