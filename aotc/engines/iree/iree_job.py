"""What a compile worker of IREE is asked for, and the distribution that compiles."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from msgspec import Struct

from aotc.base.errors import refusal

LEVELS = ("O3", "O2", "O1")
"""Levels of optimization, best first: a module may not compile at the higher ones."""

LEVEL = "iree-opt-level"

DRIVER = "iree-driver"
"""The option that chooses an executable's driver, one of `names.DRIVERS`; the compiler has no such
flag. Left out, the count of operations decides.
"""


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """The module to compile.

    `flags` are those of IREE's compiler; `weights` are indexes of bound parameters; `driver` is the
    one to use, "" to leave it to the worker.
    """

    artifact: bytes
    flags: tuple[str, ...]
    weights: tuple[int, ...]
    threads: int
    driver: str = ""


COMPILER = "iree-base-compiler"


def compiler_version() -> str:
    """Return the version of the installed compiler. Raises CompileError (AOTC-E907) without one."""
    try:
        return version(COMPILER)
    except PackageNotFoundError as error:
        raise refusal(
            "AOTC-E907",
            "the engine iree",
            "",
            expected=COMPILER,
            hint="in a clone, run `pip install ./runtime ./runtime/serve '.[iree]'`",
        ) from error
