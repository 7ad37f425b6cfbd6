"""What became of the tasks of a build that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aotc.pipeline.cache.cached_tasks import Done, Tasks, Undone
from aotc_runtime.base.errors import AotcError


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
def reporting_unfinished(tasks: Tasks, compared: str, on_failed: OnFailed) -> Iterator[None]:
    """Tell of the tasks if findings end the block, in which nothing of them runs any more then."""
    try:
        yield
    except AotcError:
        on_failed(Unfinished(tasks.done(), tasks.undone(), compared))
        raise
