"""Where executables are compiled: here, or by the workers of an executor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager

from aotc.backends.protocol import Backend
from aotc.cache.tasks import Tasks
from aotc.pipeline.distributed.executor_backend import IN_FLIGHT, ExecutorBackend
from aotc.pipeline.tasks.cached_backend import CachedBackend, toolchain_parts
from aotc.pipeline.tasks.workers import Workers


@contextmanager
def compilers(
    backends: Mapping[str, Backend], tasks: Tasks, workers: Workers, executor: Executor | None
) -> Iterator[tuple[dict[str, CachedBackend], Workers]]:
    """Cached backends by platform, and the threads that wait for them.

    executor: whose workers compile; None for this host.
    """
    if executor is None:
        yield {name: CachedBackend(backend, tasks) for name, backend in backends.items()}, workers
        return
    parts = {name: toolchain_parts(backend) for name, backend in backends.items()}
    shipped = {
        name: ExecutorBackend(backend, executor, parts[name]) for name, backend in backends.items()
    }
    with Workers(IN_FLIGHT) as waiting:
        waiting.also_stop(list(shipped.values()))
        yield (
            {name: CachedBackend(shipped[name], tasks, parts[name]) for name in shipped},
            waiting,
        )
