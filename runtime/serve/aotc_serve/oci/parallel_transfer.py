"""Several blobs at once, and how many bytes have moved."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed

from aotc_runtime.system.read_progress import BytesProgress
from aotc_serve.http_client import NoProgress
from aotc_serve.oci.registry_client import Repository

THREADS = 4
"""Registries and lines serve a few at a time; more connections share the same line."""


def ignore_progress(done: int, total: int) -> None:
    """Do nothing, as an `OnBytes`."""


class Counted(NoProgress):
    """A `Progress` of one blob, which counts no byte twice when it is transferred again."""

    def __init__(self, tally: BytesProgress, size: int) -> None:
        self._tally, self._size, self._moved = tally, size, 0

    def on_received(self, number: int) -> None:
        """Report the bytes received so far."""
        self.at(self._moved + number)

    on_sent = on_received

    def at(self, moved: int) -> None:
        """Report the bytes present; fewer than before after a restart."""
        moved = min(moved, self._size)
        self._tally.add(moved - self._moved)
        self._moved = moved

    def end(self) -> None:
        """It is there."""
        self.at(self._size)


def each[T](repository: Repository, items: Iterable[T], work: Callable[[T], object]) -> None:
    """Do the work for each item, several at a time. The first that fails, or a signal, ends all.

    Raises what the work raises.
    """
    ended, room = threading.Event(), threading.Semaphore(THREADS)

    def unless_ended(item: T) -> None:
        with room:
            if not ended.is_set():
                work(item)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="aotc-blob") as pool:
        try:
            for future in as_completed([pool.submit(unless_ended, item) for item in items]):
                future.result()
        except BaseException:
            ended.set()
            repository.close()
            # A signal while a thread starts hides that thread from the pool, which would not wait.
            for _ in range(THREADS):
                room.acquire()
            room.release(THREADS)
            raise
