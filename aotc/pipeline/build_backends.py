"""The backends of a build, those of its targets' platforms whose toolchain is here, and where they
compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from aotc.base.errors import CompileError
from aotc.compile.compiler_protocol import Backend
from aotc.compile.compiler_registry import backend_for
from aotc.pipeline.cache.cached_tasks import Tasks
from aotc.pipeline.tasks.cached_backend import CachedBackend
from aotc.pipeline.tasks.task_failures import Failures
from aotc.pipeline.tasks.task_pool import Workers
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Target

type Compilers = tuple[dict[str, CachedBackend], Workers]
"""Backends behind the cache, by platform, and the threads that wait for them."""

type OpenCompilers = Callable[
    [Mapping[str, Backend], Tasks, Workers], AbstractContextManager[Compilers]
]
"""Decides where these backends compile, for the tasks of one build and with its workers."""


@contextmanager
def on_this_host(
    backends: Mapping[str, Backend], tasks: Tasks, workers: Workers
) -> Iterator[Compilers]:
    """Compile in processes of this host."""
    yield {name: CachedBackend(backend, tasks) for name, backend in backends.items()}, workers


def backends_for(targets: Sequence[Target], failures: Failures) -> dict[str, Backend]:
    """The backend of each platform, with its toolchain checked before anything of the build runs.

    Where a platform's toolchain is missing: with --keep-going a collected failure, as long as there
    is another platform to build for.
    Raises CompileError, everything that is missing at once: AOTC-E907 packages that are missing or
    do not fit, E909 no such backend.
    """
    found: dict[str, Backend] = {}
    findings: list[Finding] = []
    for platform in dict.fromkeys(target.platform for target in targets):
        try:
            backend = backend_for(platform)
            backend.toolchain()
        except CompileError as error:
            findings.extend(error.findings)
        else:
            found[platform] = backend
    failures.add(findings)
    if not found:
        failures.raise_collected()
    return found
