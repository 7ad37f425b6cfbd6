"""Finds kinds of targets by the Python entry-point group `aotc.engines`."""

from functools import cache
from typing import Any, cast

from aotc.base.entry_points import find_points, load, stale
from aotc.base.errors import refusal
from aotc.compile.compiler_protocol import GROUP, Backend, TargetKind

type AnyKind = TargetKind[Any]


OWN = "cpu"
"""The platform that aotc itself registers."""


def platforms() -> tuple[str, ...]:
    """Return the platform of every kind of targets, sorted.

    Raises UsageError (AOTC-E033) if the metadata of aotc are those of an older installation.
    """
    if OWN not in find_points(GROUP):
        raise stale(GROUP, OWN)
    return tuple(sorted(find_points(GROUP)))


@cache
def kind_of(platform: str) -> AnyKind:
    """Return the kind of a platform's targets.

    Raises CompileError (AOTC-E909) if none is installed, UsageError as `load` and `platforms`.
    """
    if platform in platforms():
        return cast(AnyKind, load(find_points(GROUP)[platform])())
    expected, hint = f"one of: {', '.join(platforms())}", "install the package with its backend"
    raise refusal("AOTC-E909", f"platform {platform}", "", expected=expected, hint=hint)


def backend_for(platform: str) -> Backend:
    """Return the backend of a platform. Raises CompileError (AOTC-E909) if none is installed."""
    return kind_of(platform).backend()
