"""Waiting for other processes, which may never do what a test waits for."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

SECONDS = 120.0
"""More than anything takes that tests wait for, on a machine that does four other things."""


def until[T](condition: Callable[[], T], what: str, by: subprocess.Popen[Any] | None = None) -> T:
    """Return a condition's value as soon as it is true. what: for the message if it never is.
    by: the process that has to bring it about, and is waited for no longer than it runs.
    """
    end = time.monotonic() + SECONDS
    while not (found := condition()):
        assert by is None or by.poll() is None, f"it has ended before {what}: {by.communicate()}"
        assert time.monotonic() < end, f"waited {SECONDS:g} s until {what}"
        time.sleep(0.01)
    return found


def in_threads[T](count: int, work: Callable[[int], T]) -> list[T]:
    """Return the results of calls in this many threads, which begin together."""
    together = threading.Barrier(count)

    def run(number: int) -> T:
        together.wait()
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that has ended after the block: by itself, or killed if it does not or if the block
    fails. options: as `subprocess.Popen`'s.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
            process.wait(SECONDS)
        finally:
            process.kill()  # nothing, if it has ended


def said_at(terminal: int) -> Iterator[bytes]:
    """Yield what processes write to a terminal, until nobody has it open any more."""
    end = time.monotonic() + SECONDS
    while True:
        left = max(0.0, end - time.monotonic())
        assert select.select([terminal], [], [], left)[0], "a terminal is still open"
        try:
            yield os.read(terminal, 4096)
        except OSError:  # EIO: nobody has it open
            return


@contextmanager
def interrupted_start() -> Iterator[threading.Event]:
    """Raise KeyboardInterrupt from the next thread's start, as Ctrl-C does at that moment.

    Yields an event that is set once the thread runs and the interrupt is on its way.
    """
    start, interrupted = threading.Thread.start, threading.Event()

    def started_then_interrupted(thread: threading.Thread) -> None:
        start(thread)
        interrupted.set()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", started_then_interrupted)
        yield interrupted
