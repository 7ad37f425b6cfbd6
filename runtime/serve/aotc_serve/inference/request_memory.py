"""The account of the memory that requests and answers of both protocols may hold together.

Everything asks before it makes objects: connections, header fields, bodies in steps as their bytes
arrive, decoded tensors, encoded answers. `COSTS` says what each becomes; `benchmarks.serve_costs`
measures it.
"""

from __future__ import annotations

import threading

from msgspec import Struct

from aotc_runtime.base.errors import refusal


class Costs(Struct, frozen=True):
    """Bytes of memory for each unit, measured and rounded up.

    `connection` is an open HTTP connection with the task of a request that waits for its body,
    `header` a byte of a header, `field` a header field, `pipelined` a request behind another,
    `json` a byte of a JSON document with its text and slices, and `json_value` a number of a JSON
    response. `grpc_connection` is an open connection, `grpc_call` a call, `grpc_field` a field of a
    message, and `grpc_answer` a byte of a response, which is joined, and copied by grpc.
    """

    connection: int = 2**14
    header: int = 3
    field: int = 200
    pipelined: int = 2**12
    json: int = 6
    json_value: int = 72
    grpc_connection: int = 2**16
    grpc_call: int = 2**15
    grpc_field: int = 400
    grpc_answer: int = 3


COSTS = Costs()

SMALL_BYTES = 2**20
"""The most that a small request holds, where the account is large enough."""


class Memory:
    """The bytes that requests and answers under way may hold together. Used by any thread.

    Of the limit, an eighth is left to small requests; others have `most_of_large`. Of the eighth,
    three quarters are left to connections and small requests that have arrived, and half to these
    requests alone: so neither large ones nor those that never arrive keep others out.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        reserve = limit // 8
        self.small = max(min(SMALL_BYTES, reserve // 16), 1)
        self.most_of_large = limit - reserve
        self._most_of_arriving = limit - reserve * 3 // 4
        self._most_of_connections = limit - reserve // 2
        self._lock = threading.Lock()
        self._connections = 0
        self.used = 0

    @property
    def is_scarce(self) -> bool:
        """Return whether the rest is reserved for small requests."""
        return self.used + self._connections >= self.most_of_large

    def take(self, size: int, *, is_small: bool = False, is_whole: bool = False) -> None:
        """Raises ServerError (AOTC-E766)."""
        most = self.limit
        if not is_small:
            most = self.most_of_large
        elif not is_whole:
            most = self._most_of_arriving
        with self._lock:
            used = self.used + self._connections
            if used + size <= most:
                self.used += size
                return
        raise refusal(
            "AOTC-E766",
            "server",
            f"{used} of {most} bytes in use, {size} more requested",
            cause="server-is-out-of-request-memory",
        )

    def give_back(self, size: int) -> None:
        """Release reserved bytes."""
        with self._lock:
            self.used -= size

    def connect(self) -> None:
        """Count a connection of HTTP. Raises ServerError (AOTC-E766)."""
        with self._lock:
            used = self.used + self._connections
            if used + COSTS.connection <= self._most_of_connections:
                self._connections += COSTS.connection
                return
        cause = "server-is-out-of-request-memory"
        raise refusal("AOTC-E766", "server", f"{used} bytes in use", cause=cause)

    def disconnect(self) -> None:
        """Count a connection of HTTP no more."""
        with self._lock:
            self._connections -= COSTS.connection


class Claim:
    """The reserved memory of one request or response, released when it is closed or collected.

    `is_whole` states that the request has arrived. A claim that `is_waiting` on a connection never
    counts as small, so that many connections leave room for others.
    """

    __slots__ = ("_is_waiting", "_memory", "is_whole", "total")

    def __init__(
        self, memory: Memory, size: int = 0, *, is_whole: bool = False, is_waiting: bool = False
    ) -> None:
        """Raises ServerError (AOTC-E766)."""
        self._memory, self.total, self.is_whole = memory, 0, is_whole
        self._is_waiting = is_waiting
        if size:
            self.take(size)

    def take(self, size: int) -> None:
        """Raises ServerError (AOTC-E766)."""
        memory = self._memory
        is_small = not self._is_waiting and self.total + size <= memory.small
        memory.take(size, is_small=is_small, is_whole=self.is_whole)
        self.total += size

    def give_back(self, size: int) -> None:
        """Release reserved bytes."""
        self.total -= size
        self._memory.give_back(size)

    def resize(self, size: int) -> None:
        """Hold that much. Raises ServerError (AOTC-E766)."""
        if size > self.total:
            self.take(size - self.total)
        elif size < self.total:
            self.give_back(self.total - size)

    def close(self) -> None:
        """Release the claim; closing it again has no effect."""
        size, self.total = self.total, 0
        if size:
            self._memory.give_back(size)

    __del__ = close
