"""Calls to a place elsewhere that end in time, whatever answers there or does not.

A call runs in a thread of its own; one that hangs, in a name server or a network's file system, is
left behind in it. What arrives or
leaves is counted: a call may take as long as it gets on, so that large entries have their time on
slow lines, and silence or a trickle of bytes has not.
"""

import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from http import HTTPStatus
from typing import Any

from aotc_runtime.base import first_line
from aotc_serve.http_client import Response

SECONDS = 5.0
"""Until `PACE_BYTES` more have moved, or an answer has begun. A cache is to save time, and the
largest executable of our examples takes 3 s to compile.
"""

PACE_BYTES = 32 * 2**10

SENT_BYTES_UNSEEN = 4 * 2**20
"""So much of what was sent may still lie in the buffers of sockets."""

SENT_BYTES_PER_SECOND = 256 * 2**10

TICK_SECONDS = 0.1

HEAD_BYTES_MAX = 4096
"""An entry states its size within this many bytes from its start."""

CHUNK_BYTES = 256 * 2**10
"""Read and written at a time."""

TEXT_MAX = 300
"""Characters of an error's message."""

type Limit = int | Callable[[bytes], int]
"""How many bytes to read at most. A number: more bytes than that are an error. A function: it says
the number, given the first bytes; reading stops there.
"""

_NOBODY = (ConnectionError, TimeoutError, ssl.SSLError)
"""What it means that there is no connection, or no more."""


class OutageError(Exception):
    """A remote cache cannot be used now. The text is for people."""


class UnreachableError(OutageError):
    """Nobody is there, or nobody who gets anything done: to ask again would only take longer."""


class Pace:
    """Progress of a call, as the call reports it. seconds: as `SECONDS`."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._answered, self._arrived, self._sent, self._since = False, 0, 0, 0
        self._last = time.monotonic()

    def on_response(self) -> None:
        """Note that a response begins."""
        self._answered = True
        self._renew()

    def on_received(self, number: int) -> None:
        """Count received bytes."""
        self._arrived += number
        self._on_moved(number)

    def on_sent(self, number: int) -> None:
        """Count bytes that were sent, or wait in this host to be sent."""
        self._sent += number
        self._on_moved(number)

    def stall_message(self) -> str:
        """Describe the missing progress of a stalled call; empty while it makes progress."""
        silent = time.monotonic() - self._last
        unseen = min(self._sent, SENT_BYTES_UNSEEN) / SENT_BYTES_PER_SECOND
        if silent <= self._seconds + unseen:
            return ""
        if self._answered:
            return f"{self._since} bytes within {silent:.1f} s, {self._arrived} in all"
        to = f" to {self._sent} bytes" if self._sent else ""
        return f"no answer{to} within {silent:.1f} s"

    def _on_moved(self, number: int) -> None:
        self._since += number
        if self._since >= PACE_BYTES:
            self._renew()

    def _renew(self) -> None:
        self._since, self._last = 0, time.monotonic()


class Bounded:
    """Calls that end in time. Threads may share it. seconds: as `SECONDS`.

    A stopped one ends all calls at once, and begins none.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._stopped = threading.Event()
        self._why = ""

    def stop(self, why: str = "the build was stopped") -> None:
        """End what runs. why: for people; the first reason counts."""
        if not self._stopped.is_set():
            self._why = why
            self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Return whether calls are ended."""
        return self._stopped.is_set()

    def call[T](self, operation: Callable[[Pace], T]) -> T:
        """Return the result of an operation.

        Raises:
            OutageError: It raises an error.
            UnreachableError: There is no connection, or no progress.
        """
        if self._stopped.is_set():
            raise OutageError(self._why)
        pace, began = Pace(self._seconds), time.monotonic()
        future: Future[T] = Future()
        threading.Thread(
            target=_run, args=(future, operation, pace), daemon=True, name="aotc-remote"
        ).start()
        while not wait([future], TICK_SECONDS).done:
            if self._stopped.is_set():
                raise OutageError(self._why)
            if stalled := pace.stall_message():
                raise UnreachableError(stalled)
        if error := future.exception():
            if isinstance(error, OutageError):
                raise error
            kind = UnreachableError if isinstance(error, _NOBODY) else OutageError
            seconds = time.monotonic() - began
            raise kind(f"{type(error).__name__} after {seconds:.1f} s: {_text(error)}") from error
        return future.result()


def _text(error: BaseException) -> str:
    """Return the start of an error's message; the rest may be a page of what a server answered."""
    try:
        return first_line(error)[:TEXT_MAX]
    except Exception as raised:  # noqa: BLE001 - a library's own message
        return type(raised).__name__


def read_all(read: Callable[[int], bytes], limit: Limit) -> bytes:
    """Return what a file or a response holds, as far as the limit allows.

    Args:
        read: Returns at most so many bytes; none at the end.
        limit: If it is a number, more bytes raise OutageError.
    """
    found = bytearray()
    most = limit if isinstance(limit, int) else None
    while chunk := read(CHUNK_BYTES):
        found += chunk
        if most is None and not isinstance(limit, int) and len(found) >= HEAD_BYTES_MAX:
            most = limit(bytes(found[:HEAD_BYTES_MAX]))
        if most is not None and len(found) > most:
            if isinstance(limit, int):
                raise OutageError(f"an entry of more than {limit} bytes")
            break
    return bytes(found)


def read_entry(response: Response, limit: Limit) -> bytes | None:
    """Return what a response holds, as `read_all` does; None without such an entry."""
    if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return None
    if response.status != HTTPStatus.OK:
        raise OutageError(response.status_line)
    return read_all(response.read, limit)


def _run(future: Future[Any], operation: Callable[[Pace], Any], pace: Pace) -> None:
    try:
        result = operation(pace)
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits, as it is
        future.set_exception(error)
    else:
        future.set_result(result)
