"""A cache elsewhere, which others share: asked after the local one, and given what is made here.

What lies there is not trusted (`aotc.commands.remote_cache.cache_seal`), and whether it answers is
not relied
on: when nobody answers, or after a few failures in a row, it is given up for the rest of the build.
"""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from aotc.commands.remote_cache import bounded_calls
from aotc.commands.remote_cache.cache_seal import Refusal, Seals
from aotc.pipeline.cache.cache_store import LocalStore

FAILURES_MAX = 2
"""Failures in a row of a place that answers, after which it is given up."""


class Blobs(Protocol):
    """Remote bytes by name; called from several threads at once, and may raise any exception."""

    def read(self, name: str, limit: bounded_calls.Limit, pace: bounded_calls.Pace) -> bytes | None:
        """Return the bytes under a name, up to the limit; None if there are none."""

    def write(self, name: str, data: bytes, pace: bounded_calls.Pace) -> None:
        """Put bytes under a name, replacing what was there."""


class RemoteStore:
    """Signed cache entries in blobs; `place` is for messages, without secrets.

    Entries larger than `limit` bytes are neither read nor written. `seconds` is as for `Bounded`.
    """

    def __init__(
        self,
        blobs: Blobs,
        place: str,
        seals: Seals,
        limit: int,
        seconds: float = bounded_calls.SECONDS,
    ) -> None:
        self._blobs, self._place, self._seals, self._limit = blobs, place, seals, limit
        self._bounded = bounded_calls.Bounded(seconds)
        self._lock = threading.Lock()
        self._refused: Counter[Refusal] = Counter()
        self._failures, self._outage, self._given_up = 0, "", False

    def get(self, key: str) -> bytes | None:
        """Return the data under a cache key if a trusted key has signed them; None otherwise."""

        def limit(head: bytes) -> int:
            # Whoever runs the storage is not trusted to say how much there is to read.
            signed = self._seals.size(key, head)
            if signed > self._limit + bounded_calls.HEAD_BYTES_MAX:
                raise bounded_calls.OutageError(f"an entry of more than {self._limit} bytes")
            return signed

        with suppress(bounded_calls.OutageError):
            entry = self._call(lambda pace: self._blobs.read(_name(key), limit, pace))
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
        with suppress(bounded_calls.OutageError):
            self._call(lambda pace: self._blobs.write(_name(key), entry, pace))

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
        """End what is being read and written."""
        self._bounded.stop()

    def _call[T](self, operation: Callable[[bounded_calls.Pace], T]) -> T:
        try:
            result = self._bounded.call(operation)
        except bounded_calls.OutageError as error:
            self._on_failure(error)
            raise
        with self._lock:
            self._failures = 0
        return result

    def _on_failure(self, error: bounded_calls.OutageError) -> None:
        with self._lock:
            if self._bounded.stopped:
                self._outage = self._outage or str(error)
                return
            self._failures, self._outage = self._failures + 1, str(error)
            if self._failures == FAILURES_MAX or isinstance(error, bounded_calls.UnreachableError):
                self._given_up = True
                # What else waits for it would wait in vain.
                self._bounded.stop(self._outage)


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
