"""A StableHLO artifact as text."""

from __future__ import annotations


def module_text(artifact: bytes) -> str:
    """The module of a portable artifact, as MLIR prints it."""
    from aotc import private  # imports jax, which takes longer than a build without a change

    return str(private.exported_module(artifact))
