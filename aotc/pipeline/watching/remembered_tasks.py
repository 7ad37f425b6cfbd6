"""Caches tasks that run the user's code, whose inputs are known only after they have run.

The cache is asked twice. First under a key of what is known beforehand (build manifest, targets,
toolchain, host): it holds lists of what the program read in earlier builds. If everything on one of
these lists is unchanged, the second key, made of both, holds the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from msgspec import Struct

from aotc.pipeline.cache.cache_keys import Kind, Parts, Task, key_of
from aotc.pipeline.cache.cache_store import Store
from aotc.pipeline.cache.cached_tasks import NOT_KEPT, OFF, Done, Tasks
from aotc.pipeline.scratch_folder import WEIGHTS, digest_of
from aotc.pipeline.watching.recorded_reads import Looking, Reads
from aotc.pipeline.watching.recording_file import Recording
from aotc_runtime.base.digest import sha256

RECIPES_KEPT = 16
"""How many lists are kept for one program: enough for somebody who switches between branches."""


NEVER_KEPT = "its result is never kept: "
"""Begins the reasons of a task that every build runs."""

MENDABLE = ("it asked ", "weights ")
"""How reasons begin that lie in the program, not in what it has loaded."""

SHOWN_MAX = 3
"""Reasons in a note; `--explain` has all."""


class Files(Struct, frozen=True):
    """What a task wrote: relative paths, to digests of blobs in the cache."""

    files: dict[str, str]


class Recipes(Struct, frozen=True):
    """What the program read in earlier builds, the newest first."""

    reads: tuple[Reads, ...]


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that runs the user's code.

    known: what its result depends on, as far as that is known before it runs.  leaves: patterns of
    the files that it writes into the folder.  environment: of the process.
    """

    kind: Kind
    module: str
    root: Path
    folder: Path
    known: Parts
    leaves: tuple[str, ...]
    environment: Mapping[str, str]


def nothing() -> None:
    """Keep nothing, because it is in the cache already or must not be."""


def run(worker: Worker, tasks: Tasks, execute: Callable[[], None]) -> Callable[[], None]:
    """Fill the worker's folder with its files: from the cache, or by running `execute`.

    Returns a function that puts new files into the cache, for the caller to call once the result is
    known to be good.
    """
    with tasks.attempt(worker.kind, ""):
        return _run(worker, tasks, execute)


def _run(worker: Worker, tasks: Tasks, execute: Callable[[], None]) -> Callable[[], None]:
    place = key_of(f"{worker.kind} reads", worker.known)
    looking = Looking(worker.root, worker.environment)
    for reads in _recipes(tasks, place):
        task = _task(worker, looking.parts(reads))
        files = tasks.recall(task.key, Files)
        if files and _restore(files, worker.folder, tasks):
            tasks.note(task, cached=True)
            return nothing
    started = tasks.clock()
    execute()
    seconds = tasks.clock() - started
    recording = Recording.read(worker.folder, worker.module)
    task = _task(worker, recording.parts)
    if refusals := recording.reads.refusals:
        task = replace(task, parts={**task.parts, NOT_KEPT: ""})
        why = tuple(f"{NEVER_KEPT}{refusal}" for refusal in mendable_first(refusals))
        tasks.note(task, cached=False, seconds=seconds, why=why if tasks.store else (OFF,))
        return nothing
    tasks.note(task, cached=False, seconds=seconds)

    def keep() -> None:
        if tasks.store is None:
            return
        tasks.keep(task.key, Files(_keep_files(worker, tasks)))
        others = tuple(reads for reads in _recipes(tasks, place) if reads != recording.reads)
        tasks.keep(place, Recipes((recording.reads, *others)[:RECIPES_KEPT]))

    return keep


def unkept(tasks: Sequence[Done]) -> tuple[str, ...]:
    """A note if every build runs the program anew, with the first reasons."""
    reasons = [reason for done in tasks for reason in done.reasons]
    every = [r.removeprefix(NEVER_KEPT) for r in reasons if r.startswith(NEVER_KEPT)]
    why = mendable_first(dict.fromkeys(every))
    if not why:
        return ()
    more = [f"{len(why) - SHOWN_MAX} more reasons by --explain"] if len(why) > SHOWN_MAX else []
    told = "; ".join([*why[:SHOWN_MAX], *more])
    return (f"every build runs the program, which may give something else each time: {told}",)


def mendable_first(reasons: Iterable[str]) -> list[str]:
    """The reasons in their order, but first those that the program's author can do something about:
    the clock, chance, the system.
    """
    return sorted(reasons, key=lambda reason: not reason.startswith(MENDABLE))


def _recipes(tasks: Tasks, place: str) -> Iterator[Reads]:
    """Lists of earlier reads, each once; those of the remote cache come last."""
    seen: list[Reads] = []
    for recipes in tasks.recall_every(place, Recipes):
        for reads in recipes.reads:
            if reads not in seen:
                seen.append(reads)
                yield reads


def _task(worker: Worker, parts: Parts) -> Task:
    return Task(worker.kind, "", {**worker.known, **parts})


def _keep_files(worker: Worker, tasks: Tasks) -> dict[str, str]:
    assert tasks.store is not None
    found: dict[str, str] = {}
    for pattern in worker.leaves:
        for path in sorted(worker.folder.glob(pattern)):
            name = path.relative_to(worker.folder).as_posix()
            if name.startswith(WEIGHTS):
                found[name] = digest_of(path)
                tasks.store.put_file(found[name], path)
                continue
            data = path.read_bytes()
            found[name] = sha256(data)
            tasks.store.put(found[name], data)
    return found


def _lies_within(name: str) -> bool:
    """Whether this is the path of a file, from a folder that it does not leave."""
    path = PurePosixPath(name)
    leads_out = path.is_absolute() or ".." in path.parts or "\0" in name
    return bool(path.name) and not leads_out


def _restore(files: Files, folder: Path, tasks: Tasks) -> bool:
    """Write files from the cache into a folder; whether the cache had all of them, and none belongs
    outside of the folder: another builder whose key is trusted may have made the entry. Otherwise
    the folder is left as it was.
    """
    assert tasks.store is not None
    restored: list[Path] = []
    for name, digest in files.files.items():
        if not _lies_within(name) or not _put(name, digest, folder, tasks.store):
            for path in restored:
                path.unlink()
                if path.parent != folder and not any(path.parent.iterdir()):
                    path.parent.rmdir()
            return False
        restored.append(folder / name)
    return True


def _put(name: str, digest: str, folder: Path, store: Store) -> bool:
    """Whether the cache had the file of this name, which then is in the folder."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    if name.startswith(WEIGHTS) and store.get_file(digest, path):
        return True
    data = store.get(digest)
    if data is not None:
        path.write_bytes(data)
    elif path.parent != folder and not any(path.parent.iterdir()):
        path.parent.rmdir()
    return data is not None
