"""So many tasks of a build at a time, the urgent ones first; every one can be stopped."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

from aotc.processes import Processes


class Stoppable(Protocol):
    """What runs processes for a task."""

    def stop(self) -> None:
        """End them, from another thread."""


@contextmanager
def stopping_pool(count: int, stoppable: Stoppable) -> Iterator[Executor]:
    """So many threads. If the block is left by an exception, what waits is not begun and what runs
    is stopped.
    """
    with ThreadPoolExecutor(max_workers=count) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stoppable.stop()
            raise


class Workers:
    """Threads, each of which waits for the child process that does its task's work.

    A context manager: if it is left by an exception, what runs is ended and what waits is not
    begun; then it waits for its threads.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs, self.processes = jobs, Processes()
        self._pool: Executor = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="aotc-task")
        self._lock = threading.Lock()
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._others: list[Stoppable] = []

    def submit[T](self, task: Callable[[], T], *, urgent: bool = False) -> Future[T]:
        """Run it as soon as there is a worker. urgent: before others that wait: long tasks, or
        those that others need.
        """
        future: Future[T] = Future()
        with self._lock:
            entry = (0 if urgent else 1, next(self._order), future, task)
            heapq.heappush(self._waiting, entry)
        self._pool.submit(self._run_next)
        return future

    def also_stop(self, others: Sequence[Stoppable]) -> None:
        """End these too, should the build be stopped."""
        self._others.extend(others)

    def stop(self) -> None:
        """Begin nothing more, and end what runs."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, _, future, _ in waiting:
            future.cancel()
        self.processes.stop()
        for other in self._others:
            other.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.stop()
        self._pool.shutdown(wait=True)

    def _run_next(self) -> None:
        with self._lock:
            if not self._waiting:
                return
            _, _, future, task = heapq.heappop(self._waiting)
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = task()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits, as it is
            future.set_exception(error)
        else:
            future.set_result(result)
