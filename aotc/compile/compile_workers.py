"""The base of backends that compile each executable in a process, and how one can fail."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import quote, refusal
from aotc.base.stages import CompileJob, Executable
from aotc.base.temporary_files import temporary_folder
from aotc.base.workers import worker_environment, worker_parent
from aotc.base.workers.forked_workers import Zygotes
from aotc.compile import pass_log
from aotc.compile.compile_refusals import LINES_SHOWN, place_of
from aotc.compile.worker_results import Result
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import Cost, Memory

SECONDS_MAX = 1800.0
"""A single executable that takes half an hour is stuck; the largest of our examples takes 3 s."""


class WorkerBackend:
    """A backend whose compiler runs in workers.

    `worker` is a command in place of that of the module `WORKER`; `seconds_max` is the timeout for
    one executable.
    """

    WORKER: str

    def __init__(self, worker: Sequence[str] = (), seconds_max: float = SECONDS_MAX) -> None:
        self._worker, self._seconds_max = worker, seconds_max
        self._processes = Processes()

    def _default_worker(self) -> Sequence[str] | Zygotes:
        return worker_parent.module(self.WORKER)

    def _run(
        self,
        job: CompileJob,
        request: Struct,
        environment: Callable[[Path], Mapping[str, str]] = lambda folder: worker_environment.bare(),
    ) -> tuple[Result, list[str]]:
        """Run a worker in a folder of its own; return its result and printed lines.

        `request` is the job; `environment` returns variables for that folder. Raises CompileError,
        AOTC-E902 if it crashed, E903 if it took too long; OSError if the disk is full.
        """
        said: list[str] = []
        with temporary_folder(Path(tempfile.gettempdir()), "aotc-compile-", "") as folder:
            try:
                result = worker_parent.run(
                    self._worker or self._default_worker(),
                    request,
                    Result,
                    within=folder,
                    working=folder,
                    environment=environment(folder),
                    processes=self._processes,
                    seconds=self._seconds_max,
                    on_said=lambda text: said.extend(text.splitlines()),
                )
            except worker_parent.CrashedError as crash:
                if crash.late:
                    found = f"no executable within {self._seconds_max:g} s"
                    raise refusal("AOTC-E903", place_of(job), found) from crash
                last = pass_log.split(said)[1][-LINES_SHOWN:]
                found = quote(describe_status(crash.status), last)
                raise refusal("AOTC-E902", place_of(job), found, hint=crash.hint()) from crash
        return result, said

    def stop(self) -> None:
        """Stop what is being compiled; running and later calls of `compile` raise StoppedError."""
        self._processes.stop()


def executable_of(job: CompileJob, result: Result, diagnostics: Sequence[str]) -> Executable:
    """Return what a compiler made for a processor, with the steps that its evidence has."""
    places = result.evidence.placement if result.evidence is not None else ()
    flops, transcendentals, bytes_accessed = (
        max(0, int(result.cost.get(key, 0)))  # XLA has -1 for an unknown number
        for key in ("flops", "transcendentals", "bytes accessed")
    )
    return Executable(
        serialized=result.serialized,
        digest=sha256(result.serialized),
        isa=job.target.features,
        tuning=job.target.tuning,
        custom_call_targets=(),
        memory=memory_of(result.memory, len(result.serialized)),
        cost=Cost(flops=flops, transcendentals=transcendentals, bytes_accessed=bytes_accessed),
        thunks={kind: count for place in places for kind, count in place.steps.items()},
        compile_seconds=result.compile_seconds,
        diagnostics=tuple(diagnostics),
        evidence=result.evidence,
    )


def memory_of(analysis: Mapping[str, int], code_bytes: int) -> Memory:
    """Return XLA's memory analysis (bytes by purpose) as bundles record it."""
    return Memory(
        argument_bytes=analysis["argument"],
        output_bytes=analysis["output"],
        temp_bytes=analysis["temp"],
        alias_bytes=analysis["alias"],
        code_bytes=code_bytes,
    )
