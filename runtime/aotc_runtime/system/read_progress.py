"""Progress of reading a large bundle, on a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from aotc_runtime.system.streamed_bundle import OnProgress, ignore_progress

LARGE_BYTES = 64 * 2**20
"""Less than this is read before anybody could see how far it is."""

DRAWN_SECONDS = 0.1

type OnBytes = Callable[[int, int], None]
"""Called with how many bytes have moved, of how many."""


def bytes_at(place: Path) -> int:
    """Return the size of a file, or of all files in a folder; 0 for what is not there."""
    with suppress(OSError):
        inside = (entry for entry in place.rglob("*") if entry.is_file())
        return sum(e.stat().st_size for e in inside) if place.is_dir() else place.stat().st_size
    return 0


def is_seen() -> bool:
    """Return whether stderr is a terminal; a process may have no stderr."""
    stream: TextIO | None = sys.stderr
    return stream is not None and stream.isatty()


@contextmanager
def line_of_progress(doing: str, place: Path, *, quiet: bool) -> Iterator[OnProgress]:
    """Yield a callback for the bytes of a bundle that were read, which keeps one line on stderr.

    The line is cleared at the end. Small bundles, and runs without a terminal, have none.
    """
    total = 0 if quiet or not is_seen() else bytes_at(place)
    if total < LARGE_BYTES:
        yield ignore_progress
        return
    lock = threading.Lock()
    done, drawn = 0, 0.0

    def on_progress(number: int) -> None:
        nonlocal done, drawn
        with lock:
            done += number
            if (now := time.monotonic()) - drawn >= DRAWN_SECONDS:
                drawn = now
                sys.stderr.write(f"\r{doing}  {done / 2**20:.0f} of {total / 2**20:.0f} MiB")
                sys.stderr.flush()

    try:
        yield on_progress
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class BytesProgress:
    """The progress of several blobs of `total` bytes together; threads may share it."""

    def __init__(self, total: int, on_bytes: OnBytes) -> None:
        self._done, self._total, self._on_bytes = 0, total, on_bytes
        self._lock = threading.Lock()

    def add(self, number: int) -> None:
        """Add a number of bytes."""
        with self._lock:
            self._done += number
            self._on_bytes(self._done, self._total)
