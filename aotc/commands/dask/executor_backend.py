"""The client's side: a backend whose executables are compiled by the workers of an executor."""

import secrets
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any

import msgspec

from aotc.base.child_processes import StoppedError
from aotc.base.errors import is_code, raise_if, refusal
from aotc.base.stages import CompileJob, Executable
from aotc.commands.dask import executor_worker
from aotc.commands.dask.executor_messages import Answer, Request, decode_answer, encode_job
from aotc.compile.compiler_protocol import Backend
from aotc.pipeline.cached_tasks import Parts
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.bundle_manifest import BuiltWith

IN_FLIGHT = 64
"""Tasks submitted at a time, enough that no worker waits for one."""

TICK_SECONDS = 1.0


class Cluster(Executor):
    """An executor that can tell whether it still has workers."""

    def trouble(self) -> str:
        """Return why it is no use to wait any longer; empty while there is hope."""
        return ""

    def stop_build(self, build: str) -> None:
        """Stop what workers compile for a build, without waiting until they have stopped."""
        executor_worker.stop_build(build)


class ExecutorBackend:
    """Another backend, run by the workers of an executor.

    parts: `toolchain_parts` of that backend; every worker must have the same.
    """

    def __init__(self, inner: Backend, executor: Executor, parts: Parts) -> None:
        self._inner, self._executor, self._parts = inner, executor, parts
        self.platform = inner.platform
        self._build = secrets.token_hex(16)
        self._stopped: Future[Any] = Future()

    def toolchain(self) -> BuiltWith:
        """Return the toolchain that the wrapped backend compiles with."""
        return self._inner.toolchain()

    def compile(self, job: CompileJob) -> Executable:
        """Compile a job in a worker.

        Raises:
            CompileError: As the wrapped backend; AOTC-E913 for workers with another toolchain, E914
                for an executor that lost the task, E915 for a damaged result.
        """
        request = Request(
            build=self._build,
            platform=self.platform,
            toolchain=dict(self._parts),
            job=encode_job(job),
        )
        answer = self._ask(job, msgspec.msgpack.encode(request))
        if answer.stopped and not self._stopped.done():
            raise _lost(job, "a task that its worker stopped")
        return _executable(job, answer)

    def stop(self) -> None:
        """Stop what is being compiled; running and later calls of `compile` raise StoppedError."""
        if not self._stopped.done():
            self._stopped.set_result(None)
        if isinstance(self._executor, Cluster):
            self._executor.stop_build(self._build)
        else:  # its workers may be threads of this process; others finish what they have begun
            executor_worker.stop_build(self._build)

    def _ask(self, job: CompileJob, request: bytes) -> Answer:
        if self._stopped.done():
            raise StoppedError
        try:
            future: Future[Any] = self._executor.submit(executor_worker.answer, request)
        except RuntimeError as error:  # what executors raise that were shut down, or are broken
            raise _lost(job, _error_text(error)) from error
        while not future.done():
            wait((future, self._stopped), TICK_SECONDS, FIRST_COMPLETED)
            if self._stopped.done():
                future.cancel()
                raise StoppedError
            if isinstance(self._executor, Cluster) and (trouble := self._executor.trouble()):
                future.cancel()
                raise _lost(job, trouble)
        if future.cancelled():
            raise refusal("AOTC-E914", _where(job), "", cause="executor-task-was-cancelled")
        if failure := future.exception():
            cause = "executor-task-raised-an-exception"
            raise refusal("AOTC-E914", _where(job), _error_text(failure), cause=cause) from failure
        answer = decode_answer(request, future.result())
        if answer is None:
            raise _damaged_result(job, "something else")
        return answer


def _executable(job: CompileJob, answer: Answer) -> Executable:
    if any(not is_code(finding.code) for finding in answer.findings):
        raise _damaged_result(job, "an error without a code")
    raise_if(answer.findings)
    if answer.differences:
        raise refusal("AOTC-E913", _where(job), "; ".join(answer.differences))
    if answer.stopped:
        raise StoppedError
    executable = answer.executable
    if executable is None:
        raise _damaged_result(job, "nothing")
    if sha256(executable.serialized) != executable.digest:
        raise _damaged_result(job, f"an executable that is not {executable.digest}")
    return executable


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _where(job: CompileJob) -> str:
    return f"executor, {job.label} for {job.target.name}"


def _lost(job: CompileJob, found: str) -> AotcError:
    return refusal("AOTC-E914", _where(job), found)


def _damaged_result(job: CompileJob, found: str) -> AotcError:
    return refusal("AOTC-E915", _where(job), found)
