"""Job of an IREE compile worker, and the distribution that compiles."""

from msgspec import Struct

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
