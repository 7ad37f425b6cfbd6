"""The threads that `submit` and `call_async` run in."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class Threads:
    """A pool that starts on first use, with as many threads as there are processors.

    An object of its own, so that entry points need not refer to their bundle: a bundle that nobody
    refers to any more is gone at once, with its memory.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def pool(self) -> ThreadPoolExecutor:
        """The pool, started now if it was not."""
        # Imported here: servers that only call need no pool, and it costs their start 5 ms.
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)), self._name)
            return self._pool

    def close(self) -> None:
        """Let the threads end after what they are doing."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
