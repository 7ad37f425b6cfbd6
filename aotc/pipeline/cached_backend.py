"""The compilers of a build: those that are installed, each behind the cache."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from functools import cached_property
from typing import Any

import msgspec

from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob, Executable
from aotc.compile.compiler_protocol import Backend
from aotc.compile.compiler_registry import backend_for
from aotc.pipeline import code_identity
from aotc.pipeline.cached_tasks import Kind, Parts, Task, Tasks
from aotc.pipeline.task_pool import Failures, Workers
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BuiltWith, Target

PACKAGES = ("jaxlib", "msgspec", "numpy")
"""Packages that our compiler processes import: their versions and files are parts of every key. A
backend of another package names what it uses in its `toolchain()`; its own package is a part too.
"""


class CachedBackend:
    """Another backend behind the cache of a build.

    `parts` are the inputs of every executable; by default `toolchain_parts` of that backend.
    """

    def __init__(self, inner: Backend, tasks: Tasks, parts: Parts | None = None) -> None:
        self._inner, self._tasks, self._stated = inner, tasks, parts
        self.platform = inner.platform

    @cached_property
    def _parts(self) -> Parts:
        return toolchain_parts(self._inner) if self._stated is None else self._stated

    def toolchain(self) -> BuiltWith:
        """Return the toolchain that the backend compiles with."""
        return self._inner.toolchain()

    def compile(self, job: CompileJob) -> Executable:
        """Return a job's executable from the cache, or compile it."""
        of = f"{job.label} for {job.target.name}"
        task = Task(Kind.EXECUTABLE, of, {**self._parts, **job_parts(job)})
        return self._tasks.run(task, Executable, lambda: self._inner.compile(job))

    def stop(self) -> None:
        """End what the backend compiles."""
        self._inner.stop()


def toolchain_parts(backend: Backend) -> Parts:
    """Return parts of a key: what every executable of a backend depends on, beside its job."""
    return {
        **code_identity.toolchain_code(),
        **dict(code_identity.package_parts(PACKAGES)),
        **code_identity.library_parts(os.environ),
        **dict(_provider(backend)),
        **dict(_flat("", msgspec.to_builtins(backend.toolchain()))),
    }


def _provider(backend: Backend) -> Iterator[tuple[str, str]]:
    """Yield the class of a backend and, unless it is one of ours, the package it comes from."""
    package = type(backend).__module__.partition(".")[0]
    if package != "aotc":
        from importlib.metadata import packages_distributions

        yield from code_identity.package_parts(tuple(packages_distributions().get(package, ())))
    yield "backend", f"{type(backend).__module__}.{type(backend).__qualname__}"


def job_parts(job: CompileJob) -> Parts:
    """Return the cache key components of a job: every field except those for messages.

    A field that a later version adds counts with its whole value.
    """
    parts: dict[str, str] = {}
    for field in fields(job):
        value = getattr(job, field.name)
        match field.name:
            case "label" | "calls":
                pass  # for people
            case "module":
                parts["module"] = value.digest
            case "target":
                parts |= _target_parts(value)
            case "options":
                parts |= {f"compile option {name}": text for name, text in value.items()}
            case "constants":
                for index, array in value.items():
                    head = f"{array.dtype.str} {array.shape}\n".encode()
                    parts[f"constant {index}"] = sha256(head + array.tobytes())
            case other:
                parts[other] = sha256(msgspec.msgpack.encode(value))
    return parts


def _target_parts(target: Target) -> Parts:
    """Return all components but the name: a renamed target is the same machine."""
    known = msgspec.to_builtins(target)
    known.pop("name")
    options: Mapping[str, str] = known.pop("options")
    return {
        **{f"target option {name}": text for name, text in options.items()},
        **dict(_flat("target ", known)),
    }


def _flat(prefix: str, document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return a nested document as flat components with readable values."""
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name} ", value)
        elif isinstance(value, str):
            yield f"{prefix}{name}", value
        else:
            yield f"{prefix}{name}", msgspec.json.encode(value).decode()


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
    """Return the backend of each platform, after checking its toolchain.

    Where a platform's toolchain is missing: with --keep-going a collected failure, as long as there
    is another platform to build for. Raises CompileError, everything that is missing at once:
    AOTC-E907 packages that are missing or do not fit, E909 no such backend.
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
