"""Parts of a large file are hashed, and on their way to the disk, while more of it is written.

They are read from the file, not from what they were copied of: so what a disk, a cache or another
process has changed of either is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import BinaryIO, Self

from aotc.bundle.write.atomic_files import begin_to_sync
from aotc_runtime.base.digest import cores, sha256_of
from aotc_runtime.system.streamed_bundle import Told, nobody

PIECE_BYTES = 2**20

type Copy = Callable[[BinaryIO], Iterator[int]]
"""Appends bytes to a file; how many, each time there are some more of them. Raises OSError."""


class ReadBack:
    """Reads one file back while it is being written. on_progress: called with bytes that were
    hashed.
    """

    def __init__(self, on_progress: Told = nobody) -> None:
        self._on_progress = on_progress
        self._pool = ThreadPoolExecutor(cores(), "aotc-hash")
        self._parts: list[tuple[str, int, Future[bool]]] = []
        self._descriptor = -1
        self._is_left = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Hash nothing more."""
        self._is_left = True
        self._pool.shutdown(cancel_futures=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def append(self, copy: Copy, size: int, digest: str, file: BinaryIO) -> int:
        """Append a part to a file, which has to be open for reading, too; its size. digest: that
        it ought to have. Raises OSError.
        """
        if self._descriptor < 0:
            self._descriptor = os.dup(file.fileno())
        start = at = file.tell()
        for more in copy(file):
            begin_to_sync(file.fileno(), at, more)
            at += more
        hashed: Future[bool] = Future()
        try:
            hashed = self._pool.submit(self._has_digest, digest, start, size)
        except RuntimeError:  # the process may have no more threads
            hashed.set_result(self._has_digest(digest, start, size))
        self._parts.append((digest, size, hashed))
        return size

    def finish(self) -> dict[str, int]:
        """Sizes by digest of every part that has the digest which it ought to have."""
        return {digest: size for digest, size, hashed in self._parts if hashed.result()}

    def _has_digest(self, digest: str, start: int, size: int) -> bool:
        try:
            return sha256_of(self._pieces(start, start + size)) == digest
        except OSError:  # whoever reads it next has the same error, and says so
            return False

    def _pieces(self, start: int, end: int) -> Iterator[memoryview]:
        """The bytes of a part. Raises OSError."""
        buffer = memoryview(bytearray(PIECE_BYTES))
        for at in range(start, end, PIECE_BYTES):
            wanted = min(PIECE_BYTES, end - at)
            if self._is_left or os.preadv(self._descriptor, [buffer[:wanted]], at) != wanted:
                raise InterruptedError
            yield buffer[:wanted]
            self._on_progress(wanted)
