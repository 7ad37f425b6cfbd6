"""A pool of threads for a build's tasks: urgent ones first, and all of them can be stopped."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

from aotc.base.child_processes import Processes


class Stoppable(Protocol):
    """Something that runs processes for a task."""

    def stop(self) -> None:
        """End them, from another thread."""


@contextmanager
def stopping_pool(count: int, *stoppable: Stoppable) -> Iterator[Executor]:
    """A pool of `count` threads. If the block is left by an exception, waiting tasks are dropped
    and running ones are stopped.
    """
    with ThreadPoolExecutor(max_workers=count) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for each in stoppable:
                each.stop()
            raise


class Workers:
    """Threads, each of which waits for the child process that does its task's work.

    A context manager: if it is left by an exception, running processes are ended and waiting tasks
    dropped; then it waits for its threads.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs, self.processes = jobs, Processes()
        self._pool: Executor = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="aotc-task")
        self._lock = threading.Lock()
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._others: list[Stoppable] = []

    def submit[T](self, task: Callable[[], T], *, urgent: bool = False) -> Future[T]:
        """Run a task as soon as a thread is free. urgent: before other waiting tasks, because it
        takes long or others need its result.
        """
        future: Future[T] = Future()
        with self._lock:
            entry = (0 if urgent else 1, next(self._order), future, task)
            heapq.heappush(self._waiting, entry)
        self._pool.submit(self._run_next)
        return future

    def also_stop(self, others: Sequence[Stoppable]) -> None:
        """Stop these too when the build is stopped."""
        self._others.extend(others)

    def stop(self) -> None:
        """Drop the waiting tasks, and end the processes of the running ones."""
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
