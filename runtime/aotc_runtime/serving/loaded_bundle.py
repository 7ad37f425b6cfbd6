"""A bundle that is ready."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from aotc_runtime.serving.loaded_entry_point import LoadedEntryPoint
from aotc_runtime.serving.resident_bundle import ResidentBundle

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from aotc_runtime.schema.manifest_labels import ExecutableKey
    from aotc_runtime.serving.readiness import Difference


class State(StrEnum):
    """verifying -> loading -> warming -> ready -> closed, or failed from any of the first three.

    verifying: signatures, digests and compatibility.  loading: weights and executables.  warming:
    every fixture runs.
    """

    VERIFYING = "verifying"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


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


class LoadedBundle:
    """A bundle that is ready: verified, compatible, loaded, every fixture run and matched.

    Made only by `readiness.make_ready`. `bundle["predict"]` is the entry point `predict`.
    """

    def __init__(
        self,
        resident: ResidentBundle,
        fixtures: Mapping[ExecutableKey, Difference],
        compilations: int,
    ) -> None:
        self._resident: ResidentBundle | None = resident
        self.manifest = resident.verified.manifest
        self.root_digest = resident.verified.root_digest
        self.signers = resident.verified.signers
        self._choice = resident.verified.choice
        self.timings: dict[str, float] = {}
        self.fixtures = fixtures
        self._compilations = compilations
        self._lock = threading.Lock()
        self._devices = tuple(resident.devices.values())
        self._threads = Threads(f"aotc-{resident.verified.manifest.name}")
        self._entry_points = {
            name: LoadedEntryPoint(entry_point, self._threads)
            for name, entry_point in resident.entry_points.items()
        }

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def version(self) -> str:
        return self.manifest.version

    @property
    def state(self) -> State:
        """Ready, or closed."""
        return State.READY if self._resident is not None else State.CLOSED

    @property
    def entry_points(self) -> Mapping[str, LoadedEntryPoint]:
        """The entry points by name."""
        return self._entry_points

    def __getitem__(self, name: str) -> LoadedEntryPoint:
        found = self._entry_points.get(name) if isinstance(name, str) else None
        if found is None:
            from aotc_runtime.serving.serving_refusals import no_entry_point

            raise no_entry_point(f"{self.name} {self.version}", name, self._entry_points)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._entry_points)

    def __len__(self) -> int:
        return len(self._entry_points)

    def __contains__(self, name: object) -> bool:
        return name in self._entry_points

    def report(self) -> dict[str, Any]:
        """Identity, load times (seconds by stage), compilations, fixtures and calls; JSON-able."""
        from aotc_runtime.serving.loaded_report import loaded_report

        return loaded_report(self, self._choice, self._devices[0], self._compilations)

    def close(self) -> None:
        """Give executables and weights back; later calls raise ShapeError (AOTC-E633).

        Calls that are running, and results that were returned, stay good.
        """
        with self._lock:
            resident, self._resident = self._resident, None
        if resident is not None:
            for entry_point in self._entry_points.values():
                entry_point.close()
            del resident
            for device in self._devices:
                device.forget_released()
        self._threads.close()

    def __enter__(self) -> LoadedBundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(self._entry_points)
        return f"<{self.name} {self.version} for {self.manifest.target.name}: {names}>"
