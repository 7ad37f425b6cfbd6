"""Records of earlier builds, with which `--explain` compares the tasks of this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.cache.cache_store import Cache
from aotc.pipeline.cached_tasks import OnDone, Parts, Tasks
from aotc_runtime.base.digest import sha256

OFF = "nothing: the cache is off"


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
    store: Cache | None, manifest: BuildManifest, on_done: OnDone
) -> Iterator[tuple[Tasks, str]]:
    """Yield the tasks of a build, and a phrase for the earlier build that they are compared with.

    That is the last build of this manifest file or, without any, of a bundle with this name. If the
    block succeeds, its tasks are recorded for the next build. The cache is trimmed in any case.
    """
    if store is None:
        yield Tasks(None, {}, on_done), OFF
        return
    file = str(manifest.path.resolve())
    of_file, of_name = _place("manifest", file), _place("bundle", manifest.name)
    compared = "the last build of this manifest"
    last = _read(store, of_file)
    if last is None and (last := _read(store, of_name)) is not None:
        compared = f"the last build of a bundle named {manifest.name}, from {last.manifest}"
    if last is None:
        last = _Record(file, {})
        compared = (
            f"nothing: no build of this manifest, nor of a bundle named {manifest.name}, is known "
            "here"
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


def _read(store: Cache, place: str) -> _Record | None:
    data = store.read_record(place)
    try:
        return msgspec.json.decode(data, type=_Record) if data else None
    except (ValueError, RecursionError):  # MsgspecError is a ValueError, UnicodeDecodeError, too
        return None
