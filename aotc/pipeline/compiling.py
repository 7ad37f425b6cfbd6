"""Compile jobs of a build, each begun as soon as its module is captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from aotc.backends.protocol import Backend
from aotc.config.tuning_file import Key
from aotc.pipeline.plan import Wanted, entry_point_jobs
from aotc.pipeline.tasks.workers import Workers
from aotc.stages import CapturedEntryPoint, CompileJob, Executable
from aotc_runtime.schema.manifest import Target


class Compiling:
    """The compile jobs that were begun, none of them twice. Threads may share it.

    backends: by platform.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        wanted: Wanted,
        backends: Mapping[str, Backend],
        workers: Workers,
    ) -> None:
        self._targets, self._wanted = targets, wanted
        self._backends, self._workers = backends, workers
        self._begun: dict[Key, Future[Executable]] = {}

    @property
    def begun(self) -> Mapping[Key, Future[Executable]]:
        """Every job so far."""
        return dict(self._begun)

    def captured(self, entry_point: CapturedEntryPoint) -> None:
        """Begin its executables, while others are still being captured."""
        self.begin(entry_point_jobs(entry_point, self._targets, self._wanted))

    def begin(self, jobs: Mapping[Key, CompileJob]) -> dict[Key, Future[Executable]]:
        """Begin those jobs that have not been begun; the future of each of them."""
        for key, job in jobs.items():
            if key not in self._begun:
                backend = self._backends[job.target.platform]
                self._begun[key] = self._workers.submit(partial(backend.compile, job))
        return {key: self._begun[key] for key in jobs}
