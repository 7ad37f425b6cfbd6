"""A StableHLO artifact as text."""

from __future__ import annotations


def module_text(artifact: bytes) -> str:
    """The module of a portable artifact, as MLIR prints it."""
    from aotc.compile.mlir.mlir_context import (
        read_artifact,  # jaxlib takes longer than a build without a change
    )

    return str(read_artifact(artifact))
