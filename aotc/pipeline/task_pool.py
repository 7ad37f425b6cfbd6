"""A pool of threads for a build's tasks, and the failures of tasks that run side by side."""

import heapq
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Protocol, Self

from aotc.base.child_processes import Processes
from aotc.base.errors import raise_if
from aotc_runtime.base.errors import AotcError, Finding


class Stoppable(Protocol):
    """Something that runs processes for a task."""

    def stop(self) -> None:
        """End them, from another thread."""


class Workers:
    """Threads, each of which waits for the child process that does its task's work.

    A context manager: if it is left by an exception, running processes are ended and waiting tasks
    dropped; then it waits for its threads.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs, self.processes = jobs, Processes()
        self._pool: Executor = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="aotc-task")
        self._lock, self._room = threading.Lock(), threading.Semaphore(jobs)
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._others: list[Stoppable] = []

    def submit[T](self, task: Callable[[], T], *, urgent: bool = False) -> Future[T]:
        """Run a task as soon as a thread is free, an urgent one before other waiting tasks."""
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

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if error is not None:
            self.stop()
            # A signal while a thread starts hides that thread from the pool, which would not wait.
            for _ in range(self.jobs):
                self._room.acquire()
            self._room.release(self.jobs)
        self._pool.shutdown(wait=True)

    def _run_next(self) -> None:
        with self._room:
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


class Failures:
    """The findings of one build.

    With `keep_going`, they `are_collected`, and what needs the results is skipped.
    """

    def __init__(self, *, keep_going: bool) -> None:
        self.are_collected = keep_going
        self._findings: list[Finding] = []

    def wait(self, futures: Iterable[Future[Any]]) -> None:
        """Wait for all to end; raise the first failure at once unless they are collected."""
        every = list(futures)
        if not self.are_collected:
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
                if not self.are_collected:
                    raise
                self._findings.extend(error.findings)
        return found

    @contextmanager
    def collect(self, begun: Callable[[], Mapping[Any, Future[Any]]]) -> Iterator[None]:
        """Wait for the tasks that a failed block began, and raise all findings together.

        It does so only if failures are collected.
        """
        try:
            yield
        except AotcError as error:
            if self.are_collected:
                self._findings.extend(error.findings)
                self.results(begun())
                self.raise_collected()
            raise

    def add(self, findings: Iterable[Finding]) -> None:
        """Raise them, or keep them for the end."""
        if not self.are_collected:
            raise_if(findings)
        self._findings.extend(findings)

    def raise_collected(self) -> None:
        """Raise the collected findings once each, with the family of the first."""
        raise_if(dict.fromkeys(self._findings))
