"""IREE, compiled for this host from the StableHLO that jax lowers to.

Few weights are included. Large ones are copied to the device once, at load, and are arguments of
each call.
"""

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
    return [case / "model.vmfb", *([case / "weights.npz"] if _is_sized(case) else [])]


def _is_sized(case: Path) -> bool:
    from benchmarks.compare.cases import SIZED

    return case.name.partition("-")[0] in SIZED


def _weights(case: Path) -> list[Any]:
    """In the order of the module's arguments, which is that of their names."""
    if not _is_sized(case):
        return []
    import iree.runtime
    import numpy as np

    device = iree.runtime.get_device("local-task")
    with np.load(case / "weights.npz") as arrays:
        return [iree.runtime.asdevicearray(device, arrays[name]) for name in sorted(arrays.files)]


def imports() -> None:
    import iree.runtime  # noqa: F401


def load(case: Path) -> Callable[[Any], Any]:
    import iree.runtime

    module = iree.runtime.load_vm_flatbuffer_file(str(case / "model.vmfb"), driver="local-task")
    main = module.main
    weights = _weights(case)

    def call(given: Any) -> Any:
        result = main(*weights, given)
        if isinstance(result, list | tuple):
            return [each.to_host() for each in result]
        return result.to_host()

    return call


def leaves(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list) else [result]


def version() -> str:
    from importlib.metadata import version

    return f"iree {version('iree-base-runtime')}"
