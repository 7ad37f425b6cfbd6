"""What is written of a large file is hashed, and on its way to the disk, while more is written.

It is read from the file, not from what it was copied of: so what a disk, a cache or somebody else
has changed of either is noticed.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from aotc.bundle.write.disk_sync import begin_to_sync
from aotc_runtime.base.digest import cores, sha256_of
from aotc_runtime.system.streamed_bundle import Told, nobody

PIECE_BYTES = 2**20


class Source(Protocol):
    """Bytes that can be put to the end of a file."""

    def appended_to(self, file: BinaryIO) -> Iterator[int]:
        """Put them there; how many, each time there are some more of them. Raises OSError."""


@dataclass(frozen=True, slots=True)
class _Part:
    digest: str
    start: int
    size: int


class ReadBack:
    """Reads one file back while it is being written. told: called with bytes that were hashed."""

    def __init__(self, told: Told = nobody) -> None:
        self._told = told
        self._news = threading.Condition()
        self._parts: deque[_Part] = deque()
        self._good: dict[str, int] = {}
        self._written = 0
        self._descriptor = -1
        self._is_whole = self._is_left = False
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Hash nothing more."""
        with self._news:
            self._is_left = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join()
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def append(self, source: Source, size: int, digest: str, file: BinaryIO) -> None:
        """Put bytes to the end of a file, which has to be open for reading, too. digest: that they
        ought to have. Raises OSError.
        """
        self._begin(file)
        with self._news:
            self._written = file.tell()
            self._parts.append(_Part(digest, self._written, size))
            self._news.notify_all()
        for more in source.appended_to(file):
            with self._news:
                self._written += more
                self._news.notify_all()
            begin_to_sync(file.fileno(), self._written - more, more)

    def finish(self) -> dict[str, int]:
        """Sizes by digest of everything that has the digest which it ought to have; the calling
        thread helps to find out.
        """
        with self._news:
            self._is_whole = True
            self._news.notify_all()
        self._work()
        for thread in self._threads:
            thread.join()
        return self._good

    def _begin(self, file: BinaryIO) -> None:
        if self._descriptor >= 0:
            return
        self._descriptor = os.dup(file.fileno())
        for _ in range(cores()):
            thread = threading.Thread(target=self._work, name="aotc-hash", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the process may have no more threads: `finish` does it all
                break
            self._threads.append(thread)

    def _work(self) -> None:
        while (part := self._next()) is not None:
            with suppress(OSError):  # whoever reads it next has the same error, and says so
                if sha256_of(self._pieces(part)) == part.digest:
                    self._good[part.digest] = part.size

    def _next(self) -> _Part | None:
        with self._news:
            self._news.wait_for(lambda: self._parts or self._is_whole or self._is_left)
            return self._parts.popleft() if self._parts and not self._is_left else None

    def _pieces(self, part: _Part) -> Iterator[memoryview]:
        """The bytes of a part, each piece as soon as it was written. Raises OSError."""
        buffer, end = memoryview(bytearray(PIECE_BYTES)), part.start + part.size
        for at in range(part.start, end, PIECE_BYTES):
            wanted = min(PIECE_BYTES, end - at)
            self._wait_until(at + wanted)
            if self._is_left or os.preadv(self._descriptor, [buffer[:wanted]], at) != wanted:
                raise InterruptedError
            yield buffer[:wanted]
            self._told(wanted)

    def _wait_until(self, written: int) -> None:
        """So many bytes of the file are there, or there will be no more."""
        with self._news:
            self._news.wait_for(lambda: self._written >= written or self._is_whole or self._is_left)
