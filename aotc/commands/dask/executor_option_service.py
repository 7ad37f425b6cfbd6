"""Compiling on the workers of an executor, in place of this host."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial

from aotc.commands.dask.executor_backend import IN_FLIGHT, ExecutorBackend
from aotc.compile.compiler_protocol import Backend
from aotc.pipeline.cached_backend import CachedBackend, Compilers, OpenCompilers, toolchain_parts
from aotc.pipeline.cached_tasks import Tasks
from aotc.pipeline.task_pool import Workers


def on_executor(executor: Executor) -> OpenCompilers:
    """Compile on the workers of an executor, which its creator shuts down."""
    return partial(_compilers, executor)


@contextmanager
def on_cluster(url: str) -> Iterator[OpenCompilers]:
    """Compile on workers of the Dask cluster at a URL. Raises UsageError: AOTC-E064, E065."""
    from aotc.commands.dask.dask_cluster import connect

    with connect(url) as executor:
        yield on_executor(executor)


@contextmanager
def _compilers(
    executor: Executor, backends: Mapping[str, Backend], tasks: Tasks, workers: Workers
) -> Iterator[Compilers]:
    del workers  # of this host
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
