"""A StableHLO artifact as text."""

from __future__ import annotations

from aotc import private


def module_text(artifact: bytes) -> str:
    """The module of a portable artifact, as MLIR prints it."""
    return str(private.exported_module(artifact))
