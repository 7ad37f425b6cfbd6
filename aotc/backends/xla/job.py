"""What a compile worker of XLA's own platform is asked for."""

from __future__ import annotations

from msgspec import Struct

CONSTANTS_FILE = "constants.npz"
"""Values of parameters that become constants, by index; only where there are any."""


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile for: the fields of `Target` that concern the compiler. devices: the device of
    each partition of the module.
    """

    triple: str
    cpu: str
    features: tuple[str, ...]
    tuning: tuple[str, ...]
    options: dict[str, str]
    threads: int
    devices: tuple[int, ...]
