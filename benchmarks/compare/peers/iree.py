"""IREE, compiled for this host from the StableHLO that jax lowers to, weights included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LEVELS = ("O3", "O2", "O1")
"""Best first: 3.13 fails to compile an argmax of several rows with its more aggressive fusion."""


def prepare(case: Path) -> Sequence[Path]:
    from iree.compiler.tools import CompilerToolError, compile_file

    for level in LEVELS:
        try:
            compile_file(
                str(case / "module.mlir"),
                input_type="stablehlo",
                target_backends=["llvm-cpu"],
                output_file=str(case / "model.vmfb"),
                extra_args=["--iree-llvmcpu-target-cpu=host", f"--iree-opt-level={level}"],
            )
            break
        except CompilerToolError:
            if level == LEVELS[-1]:
                raise
    return [case / "model.vmfb"]


def imports() -> None:
    import iree.runtime  # noqa: F401


def load(case: Path) -> Callable[[Any], Any]:
    import iree.runtime

    module = iree.runtime.load_vm_flatbuffer_file(str(case / "model.vmfb"), driver="local-task")
    main = module.main

    def call(given: Any) -> Any:
        result = main(given)
        if isinstance(result, list | tuple):
            return [each.to_host() for each in result]
        return result.to_host()

    return call


def leaves(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list) else [result]


def version() -> str:
    from importlib.metadata import version

    return f"iree {version('iree-base-runtime')}"
