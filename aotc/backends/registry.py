"""Finds kinds of targets by the Python entry-point group `aotc.backends`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast

from aotc.backends.protocol import Backend, TargetKind
from aotc.backends.rocm.kind import RocmKind
from aotc.errors import CompileError
from aotc_runtime.errors import Finding

GROUP = "aotc.backends"

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


def no_backend(platform: str, hint: str) -> CompileError:
    """AOTC-E909."""
    found = sorted({point.name for point in entry_points(group=GROUP)})
    return CompileError(
        Finding(
            code="AOTC-E909",
            where=f"platform {platform}",
            expected="a backend for one of: " + ", ".join(found),
            found="none installed for this platform",
            hint=hint,
        )
    )
