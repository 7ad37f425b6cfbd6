"""A backend that compiles only what the cache does not have."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import msgspec

from aotc.base.stages import CompileJob, Executable
from aotc.compile.compiler_protocol import Backend
from aotc.pipeline.cache.cache_keys import Kind, Parts, Task
from aotc.pipeline.cache.cached_tasks import Tasks
from aotc.pipeline.tasks import code_identity
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import BuiltWith, Target

PACKAGES = ("jaxlib", "msgspec", "numpy")
"""Packages that our compiler processes import: their versions and files are parts of every key. A
backend of another package names what it uses in its `toolchain()`; its own package is a part too.
"""


class CachedBackend:
    """Another backend behind the cache of a build.

    parts: what every executable depends on; by default, `toolchain_parts` of that backend.
    """

    def __init__(self, inner: Backend, tasks: Tasks, parts: Parts | None = None) -> None:
        self._inner, self._tasks = inner, tasks
        self.platform = inner.platform
        self._toolchain = inner.toolchain()
        self._parts = toolchain_parts(inner) if parts is None else parts

    def toolchain(self) -> BuiltWith:
        """The toolchain that the backend compiles with."""
        return self._toolchain

    def compile(self, job: CompileJob) -> Executable:
        """The executable of this job from the cache, or a new one. Raises what the backend
        raises.
        """
        of = f"{job.label} for {job.target.name}"
        with self._tasks.attempt(Kind.EXECUTABLE, of):
            task = Task(Kind.EXECUTABLE, of, {**self._parts, **job_parts(job)})
            return self._tasks.run(task, Executable, lambda: self._inner.compile(job))

    def stop(self) -> None:
        """End what the backend compiles."""
        self._inner.stop()


def toolchain_parts(backend: Backend) -> Parts:
    """Parts of a key: what every executable of a backend depends on, beside its job."""
    return {
        **code_identity.toolchain_code(),
        **dict(code_identity.package_parts(PACKAGES)),
        **code_identity.library_parts(os.environ),
        **dict(_provider(backend)),
        **dict(_flat("", msgspec.to_builtins(backend.toolchain()))),
    }


def _provider(backend: Backend) -> Iterator[tuple[str, str]]:
    """The class of a backend and, unless it is one of ours, the package it comes from."""
    package = type(backend).__module__.partition(".")[0]
    if package != "aotc":
        from importlib.metadata import packages_distributions

        yield from code_identity.package_parts(tuple(packages_distributions().get(package, ())))
    yield "backend", f"{type(backend).__module__}.{type(backend).__qualname__}"


def job_parts(job: CompileJob) -> Parts:
    """Parts of a key: every field of a job but those for people. A field that a later version adds
    counts by all that it holds.
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
                parts |= {f"constant {index}": _array(array) for index, array in value.items()}
            case other:
                parts[other] = sha256(msgspec.msgpack.encode(value))
    return parts


def _target_parts(target: Target) -> Parts:
    """Everything but the name: a target that was renamed is the same machine."""
    known = msgspec.to_builtins(target)
    known.pop("name")
    options: Mapping[str, str] = known.pop("options")
    return {
        **{f"target option {name}": text for name, text in options.items()},
        **dict(_flat("target ", known)),
    }


def _flat(prefix: str, document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A nested document as flat parts; values are not digested, so that people see what changed."""
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name} ", value)
        elif isinstance(value, str):
            yield f"{prefix}{name}", value
        else:
            yield f"{prefix}{name}", msgspec.json.encode(value).decode()


def _array(array: Any) -> str:
    head = f"{array.dtype.str} {array.shape}\n".encode()
    return sha256(head + array.tobytes())
