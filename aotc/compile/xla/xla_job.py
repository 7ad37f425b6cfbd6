"""The job of a compile worker for XLA's own platform."""

from msgspec import Struct


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """A module to compile, and for what: the fields of `Target` that concern the compiler.

    artifact: the module.  devices: the device of each partition of it.  constants: values of
    parameters that become constants, by index, as a .npz file; empty if there are none.
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
