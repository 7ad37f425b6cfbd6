"""Calls a function on each of several items, on several threads."""

import threading
from collections.abc import Callable, Sequence


class ParallelCalls[T, R]:
    """Calls that have begun, in threads of their own; `finish` or `stop` has to follow.

    `function` must release Python's global lock, or nothing is gained. `threads` is the number of
    threads beside the one that calls `finish`. `order` has indices of the items, the last one
    begins first.
    """

    def __init__(
        self,
        function: Callable[[T], R],
        items: Sequence[T],
        threads: int,
        order: Sequence[int] | None = None,
    ) -> None:
        self._function, self._items = function, items
        # Taken from the end; a list's pop is atomic.
        self._waiting = list(range(len(items))[::-1] if order is None else order)
        self._results: dict[int, R] = {}
        self._errors: dict[int, BaseException] = {}
        self._threads: list[threading.Thread] = []
        for _ in range(min(threads, len(items))):
            thread = threading.Thread(target=self._work, name="aotc-each", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the process may have no more threads: those it has will do
                break
            self._threads.append(thread)

    def _work(self) -> None:
        while self._waiting:
            try:
                index = self._waiting.pop()
            except IndexError:
                return
            try:
                self._results[index] = self._function(self._items[index])
            except BaseException as error:  # noqa: BLE001 - raised by the calling thread
                self._errors[index] = error
                self._waiting.clear()

    def finish(self) -> dict[int, R]:
        """Return the results by the index of their item; the calling thread helps.

        After `stop`, only items that had begun have results. Raises the error of the first failed
        item, once all threads have ended; after an error no item is begun.
        """
        try:
            self._work()
        finally:
            self.stop()
        if self._errors:
            first = self._errors[min(self._errors)]
            # An error keeps alive what its traceback leads to, which must not be the error itself.
            self._errors.clear()
            self._results.clear()
            try:
                raise first
            finally:
                del first
        return self._results

    def stop(self) -> None:
        """Begin nothing more, and wait for what was begun."""
        self._waiting.clear()
        for thread in self._threads:
            thread.join()


def map_on_threads[T, R](function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Return the results, in the order of the items.

    The calling thread is one of the threads. Raises as `ParallelCalls.finish`.
    """
    results = ParallelCalls(function, items, threads - 1).finish()
    return [results[index] for index in range(len(items))]
