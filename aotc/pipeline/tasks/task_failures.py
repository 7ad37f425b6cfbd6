"""Failures of tasks that run side by side: the first one ends the build, or all are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from typing import Any

from aotc.base.errors import raise_if
from aotc_runtime.base.errors import AotcError, Finding


class Failures:
    """The findings of one build. keep_going: collect them, and go on with what does not
    need them.
    """

    def __init__(self, *, keep_going: bool) -> None:
        self._keep_going = keep_going
        self._findings: list[Finding] = []

    def wait(self, futures: Iterable[Future[Any]]) -> None:
        """Wait until all have ended. Unless failures are collected, raise the first one as soon as
        it occurs.
        """
        every = list(futures)
        if not self._keep_going:
            wait(every, return_when=FIRST_EXCEPTION)
            for future in every:
                if future.done() and (error := future.exception()):
                    raise error
        wait(every)

    def results[K, T](self, futures: Mapping[K, Future[T]]) -> dict[K, T]:
        """Wait for all; the results of those that succeeded.

        An AotcError of the others is raised, or collected. Any other exception is raised always.
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
        """If failures are collected and the block fails, wait for the tasks that it began as well,
        and raise their findings together with its own.
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

    @property
    def are_collected(self) -> bool:
        """Whether the build goes on after a failure."""
        return self._keep_going

    def __bool__(self) -> bool:
        return bool(self._findings)

    def raise_collected(self) -> None:
        """Raise what was collected, if anything, each finding once; the first decides the
        family.
        """
        raise_if(dict.fromkeys(self._findings))
