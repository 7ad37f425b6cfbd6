"""A cache elsewhere, which others share: asked after the local one, and given what is made here.

What lies there is not trusted (`aotc.commands.remote_cache.cache_seal`), and whether it answers is
not relied
on: when nobody answers, or after a few failures in a row, it is given up for the rest of the build.
"""

import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from aotc.commands.remote_cache.bounded_reads import HEAD_BYTES_MAX, Limit, OutageError
from aotc.commands.remote_cache.cache_seal import Refusal, Seals
from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.base import first_line

FAILURES_MAX = 2
"""Failures in a row of a place that answers, after which it is given up."""

TEXT_MAX = 300
"""Characters of an error's message."""

NOBODY = (ConnectionError, TimeoutError, ssl.SSLError)
"""Errors of a place without a connection: to ask again would only take longer."""


class Blobs(Protocol):
    """Remote bytes by name; called from several threads at once, and may raise any exception."""

    def read(self, name: str, limit: Limit) -> bytes | None:
        """Return the bytes under a name, up to the limit; None if there are none."""

    def write(self, name: str, data: bytes) -> None:
        """Put bytes under a name, replacing what was there."""

    def close(self) -> None:
        """End what runs, from any thread, and begin nothing."""


class RemoteStore:
    """Signed cache entries in blobs; `place` is for messages, without secrets.

    Entries larger than `limit` bytes are neither read nor written.
    """

    def __init__(self, blobs: Blobs, place: str, seals: Seals, limit: int) -> None:
        self._blobs, self._place, self._seals, self._limit = blobs, place, seals, limit
        self._lock = threading.Lock()
        self._refused: Counter[Refusal] = Counter()
        self._failures, self._outage, self._given_up, self._ended = 0, "", False, ""

    def get(self, key: str) -> bytes | None:
        """Return the data under a cache key if a trusted key has signed them; None otherwise."""

        def limit(head: bytes) -> int:
            # Whoever runs the storage is not trusted to say how much there is to read.
            signed = self._seals.size(key, head)
            if signed > self._limit + HEAD_BYTES_MAX:
                raise OutageError(f"an entry of more than {self._limit} bytes")
            return signed

        with suppress(OutageError):
            entry = self._call(lambda: self._blobs.read(_name(key), limit))
            if entry is not None:
                data = self._seals.open(key, entry)
                if not isinstance(data, Refusal):
                    return data
                with self._lock:
                    self._refused[data] += 1
        return None

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Seal and write an entry, if there is a signing key to seal it with."""
        if self._seals.sealer is None or len(data) > self._limit:
            return
        entry = self._seals.seal(key, bytes(data))
        with suppress(OutageError):
            self._call(lambda: self._blobs.write(_name(key), entry))

    def notes(self) -> tuple[str, ...]:
        """Return notes for the user on unused entries, and on why the cache was not usable."""
        with self._lock:
            refused, outage, given_up = dict(self._refused), self._outage, self._given_up
        found = [
            f"entries of the cache at {self._place} that are {why}, not used: {number}"
            for why, number in sorted(refused.items())
        ]
        if given_up:
            what = "was given up, and the build went on without it"
            found.append(f"the cache at {self._place} {what}: {outage}")
        elif outage:
            found.append(f"the cache at {self._place} could not be used: {outage}")
        return tuple(found)

    def stop(self) -> None:
        """End what is being read and written, and begin nothing."""
        with self._lock:
            self._ended = self._ended or "the build was stopped"
        self._blobs.close()

    def _call[T](self, operation: Callable[[], T]) -> T:
        """Return the result of an operation. Raises OutageError, whatever it raises."""
        began = time.monotonic()
        try:
            if self._ended:
                raise OutageError(self._ended)
            result = operation()
        except Exception as error:
            took = f"{type(error).__name__} after {time.monotonic() - began:.1f} s: "
            told = ("" if isinstance(error, OutageError) else took) + first_line(error)[:TEXT_MAX]
            self._on_failure(told, is_final=isinstance(error, NOBODY))
            raise OutageError(told) from error
        with self._lock:
            self._failures = 0
        return result

    def _on_failure(self, told: str, *, is_final: bool) -> None:
        with self._lock:
            if self._ended:
                self._outage = self._outage or self._ended
                return
            self._failures, self._outage = self._failures + 1, told
            if not is_final and self._failures < FAILURES_MAX:
                return
            self._given_up, self._ended = True, told
        self._blobs.close()  # what else waits for it would wait in vain


class SharedStore(LocalStore):
    """A local store in front of a remote one, whose size its operator limits.

    Results of the remote one are stored locally as well, and new results go to both.
    """

    def __init__(self, local: LocalStore, remote: RemoteStore) -> None:
        super().__init__(local.folder, local.limit)
        self.remote = remote

    def get(self, key: str) -> bytes | None:
        """Return the bytes under a key, from the local store or else the remote one.

        Those of the remote one are then stored locally; None if neither has any.
        """
        data = super().get(key)
        if data is None:
            data = self.remote.get(key)
            if data is not None:
                super().put(key, data)
        return data

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Keep the bytes in both stores, if possible."""
        super().put(key, data)
        self.remote.put(key, data)

    def notes(self) -> tuple[str, ...]:
        """Return sentences for people about what went wrong in either store."""
        return (*super().notes(), *self.remote.notes())

    def stop(self) -> None:
        """End what is being read and written remotely, from another thread."""
        self.remote.stop()


def _name(key: str) -> str:
    return key.removeprefix("sha256:")
