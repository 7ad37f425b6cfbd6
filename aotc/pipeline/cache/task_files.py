"""Files that a task leaves in a folder, in the cache: the task's entry has their names and digests,
and each is an entry of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from aotc.pipeline.cache.cache_keys import Task
from aotc.pipeline.cache.cached_tasks import Tasks
from aotc_runtime.base.digest import sha256


class Files(Struct, frozen=True):
    """The names of files, to digests of entries in the cache."""

    files: dict[str, str]


def restore(task: Task, folder: Path, tasks: Tasks) -> bool:
    """Write the files of a task from the cache into a folder; whether the cache had all of them.
    Otherwise nothing is written.
    """
    kept = tasks.recall(task.key, Files)
    if kept is None or tasks.store is None:
        return False
    found: dict[str, bytes] = {}
    for name, digest in kept.files.items():
        data = tasks.store.get(digest)
        # Another builder whose key is trusted may have made the entry.
        if data is None or Path(name).name != name or name in ("", ".", "..") or "\0" in name:
            return False
        found[name] = data
    for name, data in found.items():
        (folder / name).write_bytes(data)
    return True


def keep(task: Task, folder: Path, patterns: Sequence[str], tasks: Tasks) -> None:
    """Put the files of a folder with these patterns into the cache, if there is one."""
    if tasks.store is None:
        return
    found: dict[str, str] = {}
    for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
        data = path.read_bytes()
        found[path.name] = sha256(data)
        tasks.store.put(found[path.name], data)
    tasks.keep(task.key, Files(found))
