"""What went wrong in a build whose tasks run beside each other: the first of it, or all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from typing import Any

from aotc.errors import raise_if
from aotc_runtime.errors import AotcError, Finding


class Failures:
    """Findings of one build. keep_going: collect them, and go on with what does not need it."""

    def __init__(self, *, keep_going: bool) -> None:
        self._keep_going = keep_going
        self._findings: list[Finding] = []

    def wait(self, futures: Iterable[Future[Any]]) -> None:
        """Until all have ended; or raise what the first of them raised, as soon as it did, unless
        failures are collected.
        """
        every = list(futures)
        if not self._keep_going:
            wait(every, return_when=FIRST_EXCEPTION)
            for future in every:
                if future.done() and (error := future.exception()):
                    raise error
        wait(every)

    def results[K, T](self, futures: Mapping[K, Future[T]]) -> dict[K, T]:
        """What succeeded, once all have ended; what failed is raised, or kept for the end.

        What is no finding of ours is raised always.
        """
        self.wait(futures.values())
        found: dict[K, T] = {}
        for key, future in futures.items():
            try:
                found[key] = future.result()
            except AotcError as error:
                if not self._keep_going:
                    raise
                self._findings.extend(error.findings)
        return found

    @contextmanager
    def of_all(self, begun: Callable[[], Mapping[Any, Future[Any]]]) -> Iterator[None]:
        """If the block fails and failures are collected, those of what was begun in it come on top.
        Nothing goes on behind it.
        """
        try:
            yield
        except AotcError as error:
            if self._keep_going:
                self._findings.extend(error.findings)
                self.results(begun())
                self.raise_collected()
            raise

    def add(self, findings: Iterable[Finding]) -> None:
        """Raise them, or keep them for the end."""
        if not self._keep_going:
            raise_if(findings)
        self._findings.extend(findings)

    def __bool__(self) -> bool:
        return bool(self._findings)

    def raise_collected(self) -> None:
        """Raise what was collected, each finding once; its family is that of the first."""
        raise_if(dict.fromkeys(self._findings))
