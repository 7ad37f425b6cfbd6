"""The job of a compile worker for XLA's own platform."""

from msgspec import Struct


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """A module to compile, with the fields of `Target` that concern the compiler.

    `artifact` is the module, `devices` has the device of each of its partitions. `constants` is a
    .npz file with the values of parameters that become constants, by index; empty without any.
    """

    artifact: bytes
    triple: str
    cpu: str
    features: tuple[str, ...]
    tuning: tuple[str, ...]
    options: dict[str, str]
    threads: int
    devices: tuple[int, ...]
    constants: bytes
