"""The distributions of IREE: what compiles, and what runs what was compiled."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from aotc.base.errors import refusal

COMPILER = "iree-base-compiler"
RUNTIME = "iree-base-runtime"


def compiler_version() -> str:
    """The version of the installed compiler. Raises CompileError (AOTC-E907) without one."""
    try:
        return version(COMPILER)
    except PackageNotFoundError as error:
        raise refusal(
            "AOTC-E907",
            "the engine iree",
            "it is not installed",
            expected=f"{COMPILER}, which compiles for it",
            hint="from a clone: `pip install ./runtime ./runtime/serve '.[iree]'`, or name another "
            "engine in `engines`",
        ) from error
