"""What a compile worker of IREE is asked for."""

from __future__ import annotations

from msgspec import Struct

LEVELS = ("O3", "O2", "O1")
"""Levels of optimization, best first: a module may not compile at the higher ones."""

LEVEL = "iree-opt-level"

DRIVER = "iree-driver"
"""The option that chooses an executable's driver, one of `names.DRIVERS`; the compiler has no such
flag. Left out, the count of operations decides.
"""


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile. artifact: the module.  flags: of IREE's compiler.  weights: places of the
    module's parameters that are bound.  driver: that suits it; "" leaves it to the worker.
    """

    artifact: bytes
    flags: tuple[str, ...]
    weights: tuple[int, ...]
    threads: int
    driver: str = ""
