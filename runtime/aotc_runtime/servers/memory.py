"""The memory that requests may hold together, and what of it is kept for those that follow."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

from aotc_runtime.errors import refusal

KEPT_BYTES = 2**28
"""The most that the C library keeps of what requests have freed, for all threads together."""

WHOLE_BYTES_MAX = 2**25
"""What is larger is always taken from the system, and given back to it: glibc's own limit for what
programs may state.
"""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt`, as glibc's malloc.h numbers them."""

_SAID = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed(threads: int, environment: Mapping[str, str] = os.environ) -> None:
    """Have glibc keep some of what is freed. By default it gives back whatever is more than twice
    the largest piece, and takes it page by page for the next request, which costs more than
    anything else that a request of some 100 KiB takes.

    threads: that make requests' memory; each has a heap of its own.  environment: what it says of
    this counts instead (mallopt(3)). Other C libraries are left alone.
    """
    if any(name in environment for name in _SAID):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        kept = KEPT_BYTES // max(threads, 1)
        mallopt(_TRIM_THRESHOLD, kept)
        mallopt(_MMAP_THRESHOLD, min(kept // 2, WHOLE_BYTES_MAX))


class Memory:
    """The bytes that requests and answers under way may hold together. One thread uses it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def take(self, size: int) -> None:
        """Raises ServerError (AOTC-E766)."""
        if self.used + size > self._limit:
            raise refusal(
                "AOTC-E766",
                "server",
                f"{self.used} of {self._limit} bytes taken by other requests, and {size} more",
            )
        self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size
