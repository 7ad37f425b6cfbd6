"""Calls to a place elsewhere that end in time, whatever answers there or does not.

A call runs in a thread of its own; a library that hangs is left behind in it. What arrives or
leaves is counted: a call may take `SECONDS` plus a second for every `BYTES_PER_SECOND` moved, so
that large entries have their time, and a trickle of bytes has not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

SECONDS = 20.0
BYTES_PER_SECOND = 256 * 2**10
TICK_SECONDS = 0.2

type Moved = Callable[[int], None]
"""Told of bytes that have arrived or left."""

HEAD_BYTES_MAX = 4096
"""By so many bytes, or fewer where there are no more, an entry says how large it is."""

type Limit = int | Callable[[bytes], int]
"""How many bytes may come: more than a number are an error. Or what says it by the first of them;
then no more are read.
"""


class OutageError(Exception):
    """A place elsewhere cannot be read or written now. Its text is for people."""


class Bounded:
    """Calls that end in time. Threads may share it. seconds: that a call may take beside its bytes.

    A stopped one ends all calls at once, and begins none.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End what runs."""
        self._stopped.set()

    def call[T](self, operation: Callable[[Moved], T]) -> T:
        """What an operation gives. Raises OutageError if it raises anything, or takes too long."""
        if self._stopped.is_set():
            raise OutageError("the build was stopped")
        moved = _Count()
        future: Future[T] = Future()
        ended = threading.Event()
        future.add_done_callback(lambda _: ended.set())
        started = time.monotonic()
        threading.Thread(
            target=_run, args=(future, operation, moved.add), daemon=True, name="aotc-remote"
        ).start()
        while not ended.wait(TICK_SECONDS):
            taken = time.monotonic() - started
            if self._stopped.is_set():
                raise OutageError("the build was stopped")
            if taken > self._seconds + moved.bytes / BYTES_PER_SECOND:
                raise OutageError(f"no end after {taken:.0f} s, with {moved.bytes} bytes moved")
        if error := future.exception():
            if isinstance(error, OutageError):
                raise error
            # What servers answer goes on for pages.
            first = (str(error).strip().splitlines() or [""])[0]
            raise OutageError(f"{type(error).__name__}: {first}") from error
        return future.result()


class _Count:
    bytes = 0

    def add(self, number: int) -> None:
        self.bytes += number


def _run(future: Future[Any], operation: Callable[[Moved], Any], moved: Moved) -> None:
    try:
        result = operation(moved)
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits, as it is
        future.set_exception(error)
    else:
        future.set_result(result)
