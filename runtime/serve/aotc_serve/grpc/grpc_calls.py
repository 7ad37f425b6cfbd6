"""Calls of gRPC that wait for their message, or whose answer waits for the client.

grpc itself has no limit for either: it reads a message of any allowed size for a call as soon as
that asks for one, and holds an answer until the client takes it. It tells neither how much of a
message has arrived nor when; the system does, for each connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import takewhile
from time import perf_counter

from aotc_runtime.base.errors import AotcError, refusal
from aotc_serve.grpc.grpc_sockets import cut, find_sockets, received_bytes
from aotc_serve.inference.request_memory import COSTS, Claim, Memory
from aotc_serve.inference.server_options import PACE_BYTES, Limits

LOOK_SECONDS = 0.02
"""Interval of checks. Messages that arrive within it are not counted before."""

LOOK_SHARE = 10
"""Looking takes a tenth of the event loop's time at most."""

SCARCE_SECONDS = 1.0
"""Timeout of an answer for its client while only small requests have room."""

HEADER_BYTES = 64
"""Bytes of a call beside its message, that its connection has received at least."""

CONNECTIONS_MAX = 4096
"""Connections that are remembered without a call that waits."""


class Call:
    """A call, from its header until its response was taken.

    `refused` is the reason why the server no longer waits for it.
    """

    __slots__ = ("claim", "connection", "refused", "since", "task")

    def __init__(self, connection: Connection, claim: Claim) -> None:
        # Until it is over: a task holds its error, and that the call.
        self.task = asyncio.current_task()
        self.connection, self.claim = connection, claim
        self.since = asyncio.get_running_loop().time()
        self.refused: AotcError | None = None


class Connection:
    """A connection with calls; `peer` is gRPC's name of the client.

    `waiting` has calls without a message, oldest first; `delivered` counts bytes of messages.
    `claim` covers the received bytes of waiting calls. `unread_before` bytes were unread at the
    time `since`, from which the pace is measured.
    """

    def __init__(self, peer: str, claim: Claim) -> None:
        self.peer, self.claim = peer, claim
        self.waiting: dict[Call, None] = {}
        self.number = -1
        self.delivered = self._base = self.unread_before = 0
        self.since = 0.0

    def unread(self, most: int) -> int | None:
        """Return the number of received, undelivered bytes; None if the socket is unknown."""
        found = received_bytes(self.number, self.peer)
        if found is None:
            return None
        return min(max(found - self.delivered - self._base, 0), most * len(self.waiting))

    def calibrate(self) -> None:
        """Note that all that has arrived was delivered or dropped."""
        self.claim.close()
        found = received_bytes(self.number, self.peer) if self.number >= 0 else None
        if found is not None:
            self._base = found - self.delivered


class Calls:
    """All calls of a server. Used from its event loop alone."""

    def __init__(self, memory: Memory, limits: Limits) -> None:
        self._memory, self._limits = memory, limits
        self._connections: dict[str, Connection] = {}
        # The first of each has waited longest.
        self._waiting: dict[Call, None] = {}
        self._answered: dict[Call, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, peer: str) -> Call:
        """Begin a call that waits for its message. Raises ServerError (AOTC-E766).

        Where too many wait, the one that has waited longest is refused: clients that are silent
        keep no others out.
        """
        if len(self._waiting) >= max(self._limits.requests, 1):
            error = refusal("AOTC-E766", "server", "calls without a message")
            self._refuse(next(iter(self._waiting)), error)
        connection = self._connections.pop(peer, None)
        if connection is None:
            connection = Connection(peer, Claim(self._memory))
        self._connections[peer] = connection
        call = Call(connection, Claim(self._memory, COSTS.grpc_call))
        if not connection.waiting:
            connection.since, connection.unread_before = call.since, 0
        self._waiting[call] = connection.waiting[call] = None
        self._check_later(LOOK_SECONDS)
        return call

    def on_received(self, call: Call, size: int) -> None:
        """End the wait of a call for its message."""
        call.connection.delivered += size + HEADER_BYTES
        call.claim.is_whole = True
        self._wait_no_longer(call)

    def is_answered(self, call: Call) -> None:
        """Note that the response of a call waits for the client."""
        call.since = asyncio.get_running_loop().time()
        self._answered[call] = None
        self._check_later(LOOK_SECONDS)

    def end(self, call: Call) -> None:
        """End the call, whatever its outcome."""
        self._wait_no_longer(call)
        self._answered.pop(call, None)
        call.claim.close()
        call.task = None

    def _wait_no_longer(self, call: Call) -> None:
        connection = call.connection
        self._waiting.pop(call, None)
        if call in connection.waiting:
            del connection.waiting[call]
            if not connection.waiting:
                connection.calibrate()

    def _refuse(self, call: Call, error: AotcError) -> None:
        """Make the call raise an error in place of waiting."""
        self._wait_no_longer(call)
        call.refused = error
        if call.task is not None:
            call.task.cancel()

    def _check_later(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer, started = None, perf_counter()
        now = asyncio.get_running_loop().time()
        slow: dict[Connection, None] = {}
        for call in self._waiting:
            if now - call.since < LOOK_SECONDS:
                break
            slow[call.connection] = None
        unknown = [each for each in slow if not self._is_bounded(each, now)]
        if unknown:
            self._start(self._find(unknown))
        self._cut_off(now)
        for peer in list(self._connections)[:-CONNECTIONS_MAX]:
            if not self._connections[peer].waiting:
                del self._connections[peer]
        if self._waiting or self._answered:
            self._check_later(max(LOOK_SECONDS, LOOK_SHARE * (perf_counter() - started)))

    def _is_bounded(self, connection: Connection, now: float) -> bool:
        """Count bytes, reject late calls; return whether bytes are known or no call waits."""
        limits, unread = self._limits, connection.unread(self._limits.body)
        if unread is not None:
            try:
                connection.claim.resize(unread)
            except AotcError as error:
                for call in list(connection.waiting):
                    # A call that has only begun may have a small message.
                    if now - call.since >= LOOK_SECONDS:
                        self._refuse(call, error)
                return True
            if unread >= connection.unread_before + PACE_BYTES or unread < connection.unread_before:
                connection.unread_before, connection.since = unread, now
        is_silent = now - connection.since >= limits.header_seconds
        for call in list(connection.waiting):
            if is_silent or now - call.since >= limits.body_seconds:
                pace = f"{PACE_BYTES} bytes in each {limits.header_seconds:g} s"
                expected = f"a message within {limits.body_seconds:g} s, {pace}"
                found = "an incomplete message"
                self._refuse(call, refusal("AOTC-E764", "request", found, expected=expected))
        return unread is not None or not connection.waiting

    async def _find(self, connections: list[Connection]) -> None:
        found = await asyncio.to_thread(find_sockets)
        for connection in connections:
            connection.number = found.get(connection.peer, -1)

    def _cut_off(self, now: float) -> None:
        """Cut connections whose client does not take an answer."""
        most = SCARCE_SECONDS if self._memory.is_scarce else self._limits.write_seconds
        late = list(takewhile(lambda call: now - call.since > most, self._answered))
        for call in late:
            del self._answered[call]
        if late:
            self._start(asyncio.to_thread(cut, {call.connection.peer for call in late}))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
