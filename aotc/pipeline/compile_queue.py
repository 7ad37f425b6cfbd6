"""Compile jobs of a build, each begun as soon as its module is captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from aotc.base.stages import ByTarget, CapturedEntryPoint, CompileJob, Executable
from aotc.compile.compiler_protocol import Backend
from aotc.pipeline.build_plan import Wanted, compile_jobs
from aotc.pipeline.tasks.task_pool import Workers
from aotc_runtime.schema.bundle_manifest import Target
from aotc_runtime.schema.manifest_labels import ExecutableKey


class CompileQueue:
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
        self._begun: dict[tuple[str, ExecutableKey], Future[Executable]] = {}

    @property
    def begun(self) -> Mapping[tuple[str, ExecutableKey], Future[Executable]]:
        """Every job so far, by the target's name and the executable."""
        return dict(self._begun)

    @property
    def wanted(self) -> Wanted:
        """The executables of each target."""
        return self._wanted

    def forget(self, target: str) -> None:
        """Leave out what was begun for a target, so that it can begin for another engine."""
        for place in [*self._begun]:
            if place[0] == target:
                del self._begun[place]

    def captured(self, entry_point: CapturedEntryPoint) -> None:
        """Begin its executables, while others are still being captured."""
        self.begin(compile_jobs([entry_point], self._targets, self._wanted))

    def begin(self, jobs: ByTarget[CompileJob]) -> list[Future[Executable]]:
        """Begin those jobs that have not been begun; the futures of all of them."""
        every = {(name, key): job for name, each in jobs.items() for key, job in each.items()}
        for place, job in every.items():
            if place not in self._begun:
                backend = self._backends[job.target.platform]
                self._begun[place] = self._workers.submit(partial(backend.compile, job))
        return [self._begun[place] for place in every]
