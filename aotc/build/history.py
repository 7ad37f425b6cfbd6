"""The tasks of a build between its cache and what the last build of the same manifest did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from aotc.cache.store import Cache
from aotc.cache.tasks import Last, OnDone, Tasks
from aotc_runtime.digest import sha256


@contextmanager
def open_tasks(store: Cache | None, manifest: Path, on_done: OnDone) -> Iterator[Tasks]:
    """The tasks of a build of this manifest; what they did is left for the next one if it succeeds.

    Whether it does or not, the cache is then no larger than it may be.
    """
    name = sha256(str(manifest.resolve()).encode(errors="surrogateescape"))
    last = _read(store, name.removeprefix("sha256:")) if store else {}
    tasks = Tasks(store, last, on_done)
    try:
        yield tasks
        if store:
            kept = {**last, **tasks.record()}
            data = msgspec.json.encode(kept, order="sorted")
            store.write_record(name.removeprefix("sha256:"), data)
    finally:
        if store:
            store.trim()


def _read(store: Cache, name: str) -> Last:
    data = store.read_record(name)
    try:
        return msgspec.json.decode(data, type=dict[str, dict[str, str]]) if data else {}
    except msgspec.MsgspecError:
        return {}
