"""Modules as workers read them, and packages that are installed in a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from jaxlib.mlir import ir

from aotc.capture.portable_stablehlo import portable
from aotc.compile.mlir import mlir_context


def module_of(function: Any, *inputs: Any, **options: Any) -> ir.Module:
    """The module of a function. options: of jax.jit."""
    jitted = jax.jit(function, keep_unused=True, **options)
    lowered = jitted.trace(*inputs).lower(lowering_platforms=("cpu",))
    return mlir_context.read_artifact(portable(lowered.compiler_ir("stablehlo")).artifact)


def install(
    folder: Path, name: str, version: str, file: str | None = None, lines: Sequence[str] = ()
) -> None:
    """Put a package in a folder. file: it has.  lines: of its metadata, beside name and version."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    told = ("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, "")
    (info / "METADATA").write_text("\n".join(told))
    (info / "RECORD").write_text(f"{file or 'other.txt'},,\n")
    if file:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
