"""Finds kinds of targets by the Python entry-point group `aotc.engines`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from aotc.compile.compile_refusals import no_backend
from aotc.compile.compiler_protocol import GROUP, Backend, TargetKind

type AnyKind = TargetKind[Any]


@cache
def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def platforms() -> tuple[str, ...]:
    """The platform of every kind of targets, sorted."""
    return tuple(sorted(_points()))


@cache
def kind_of(platform: str) -> AnyKind:
    """The kind of a platform's targets. Raises CompileError (AOTC-E909) if none is installed."""
    if platform in _points():
        return cast(AnyKind, _points()[platform].load()())
    raise no_backend(platform, "install the package with its backend")


def backend_for(platform: str) -> Backend:
    """The backend of a platform. Raises CompileError (AOTC-E909) if none is installed."""
    return kind_of(platform).backend()
