"""The worker's side: the function that executors call, in a long-lived process."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from aotc.base.child_processes import StoppedError
from aotc.base.msgpack_values import unpack
from aotc.base.workers.forked_workers import renew
from aotc.commands.dask.executor_messages import Answer, Request, decode_job, encode_answer
from aotc.compile.compiler_protocol import Backend
from aotc.compile.compiler_registry import backend_for
from aotc.pipeline.cached_backend import toolchain_parts
from aotc.pipeline.cached_tasks import Parts, changes
from aotc_runtime.base.errors import AotcError, Finding

STOPPED_KEPT = 256
"""How many stopped builds are remembered, since tasks of theirs may still arrive."""


class _Running:
    """The backends that compile in this process now, with the build they compile for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backends: list[tuple[str, Backend]] = []
        self._stopped: deque[str] = deque(maxlen=STOPPED_KEPT)

    @contextmanager
    def compiling(self, build: str, backend: Backend) -> Iterator[None]:
        """Raise StoppedError if the build was stopped."""
        entry = (build, backend)
        with self._lock:
            if build in self._stopped:
                raise StoppedError
            self._backends.append(entry)
        try:
            yield
        finally:
            with self._lock:
                self._backends.remove(entry)

    def stop(self, build: str) -> None:
        with self._lock:
            self._stopped.append(build)
            backends = [backend for of, backend in self._backends if of == build]
        for backend in backends:
            backend.stop()
        renew()  # nothing of a build stays with a worker once it was stopped


_RUNNING = _Running()


def answer(request: bytes) -> bytes:
    """Compile what a request asks for; an encoded `Answer`."""
    return encode_answer(request, _answer(unpack(request, Request)))


def stop_build(build: str) -> None:
    """Stop what this process compiles for a build, and compile nothing more for it."""
    _RUNNING.stop(build)


def _answer(request: Request) -> Answer:
    try:
        if differences := tuple(changes(request.toolchain, _own_parts(request.platform))):
            return Answer(differences=differences)
        job = decode_job(request.job)
        backend = backend_for(request.platform)
        with _RUNNING.compiling(request.build, backend):
            return Answer(executable=backend.compile(job))
    except AotcError as error:
        return Answer(findings=tuple(Finding(**each.to_json()) for each in error.findings))
    except StoppedError:
        return Answer(stopped=True)


@cache
def _own_parts(platform: str) -> Parts:
    return toolchain_parts(backend_for(platform))
