"""The memory that requests may hold together."""

from __future__ import annotations

from aotc_runtime.errors import refusal


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
