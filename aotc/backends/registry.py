"""Finds kinds of targets by the Python entry-point group `aotc.backends`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast

from aotc.backends.protocol import GROUP, Backend, TargetKind
from aotc.backends.refusals import no_backend
from aotc.backends.rocm.kind import RocmKind

type AnyKind = TargetKind[Any]


@cache
def kinds() -> dict[str, AnyKind]:
    """Every kind of targets, by platform, sorted. Without a package that compiles for AMD GPUs,
    their target files can still be read.
    """
    found: dict[str, AnyKind] = {"rocm": RocmKind()}
    for point in entry_points(group=GROUP):
        found[point.name] = cast(AnyKind, point.load()())
    return dict(sorted(found.items()))


def kind_of(platform: str) -> AnyKind:
    """The kind of a platform's targets. Raises CompileError (AOTC-E909) if none is installed."""
    kind = kinds().get(platform)
    if kind is None:
        raise no_backend(platform, "install the package with its backend")
    return kind


def backend_for(platform: str) -> Backend:
    """The backend of a platform. Raises CompileError (AOTC-E909) if none is installed."""
    return kind_of(platform).backend()
