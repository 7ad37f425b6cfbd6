"""The distributions of ONNX and ONNX Runtime."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from aotc.errors import refusal
from aotc_runtime.engines.onnxruntime.names import ENGINE, RUNTIME

FORMAT = "onnx"
"""What writes graphs."""


def versions() -> dict[str, str]:
    """The version of each. Raises CompileError (AOTC-E907) where one is missing."""
    return {name: _version(name) for name in (FORMAT, RUNTIME)}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError as error:
        raise refusal(
            "AOTC-E907",
            f"the engine {ENGINE}",
            f"{name} is not installed",
            expected=f"{FORMAT} and {RUNTIME}, which compile for it",
            hint="from a clone: `pip install ./runtime '.[onnx]'`, or name another engine in "
            "`engines`",
        ) from error
