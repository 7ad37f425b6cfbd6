"""Facts about a host.

`aotc_runtime.system.host_probe` gathers them, and `aotc_runtime.verification` evaluates them.
"""

from collections.abc import Mapping

from msgspec import Struct

VERSION = "0.1.0"
"""The version of this package; a test holds it equal to the distribution's."""

NOT_INSTALLED = "not installed"
"""In place of the version of a package that is not there."""


PROCESSOR_DEVICES_MAX = 4096
"""The most devices that a processor is asked to be: XLA takes seconds to make so many, and for more
the square of their number."""


def version_numbers(version: str) -> tuple[int, ...]:
    """Return (13, 0) for "13.0"; nothing for what is no version, which is older than any."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()


class Machine(Struct, frozen=True):
    """The processor, with `architecture`, `cpu` and `features` in LLVM's spelling.

    An engine that runs on it adds `kind`, its name for the processor; `jaxlib`, the version that
    will run executables; and `devices`, how many it has made of it, 0 for none yet.
    """

    architecture: str
    cpu: str
    features: frozenset[str]
    kind: str = ""
    jaxlib: str = NOT_INSTALLED
    devices: int = 0


class Accelerator(Struct, frozen=True):
    """The devices of one platform that this process may use, "cuda" for one.

    `kinds` are distinct product names as the driver states them, sorted. `memory_bytes` are free on
    the device with the least. `plugin` is the version of the PJRT plugin, `compute_capability` the
    lowest, `driver` the CUDA version that the driver supports ("13.0") and `driver_release` the
    driver's own version. All are "" where unknown.
    """

    platform: str
    devices: int
    kinds: tuple[str, ...] = ()
    memory_bytes: int = 0
    plugin: str = ""
    compute_capability: str = ""
    driver: str = ""
    driver_release: str = ""


class HostFacts(Struct, frozen=True):
    """Facts about a host; texts are "" if unknown.

    Attributes:
        platform: "cpu".
        architecture: "x86_64".
        isa: processor features that programs may use, in LLVM's spelling.
        cpu: the processor's name, which implies no features.
        jaxlib: the version that will run the executables, or NOT_INSTALLED.
        devices: number of devices.
        memory_bytes: what this process may still allocate: free memory or cgroup limit, the less.
        os: "linux".
        libc: name and version, "glibc 2.36".
        runtime: version of aotc-runtime.
        bundle_format: the newest that it reads.
        device_kind: jaxlib's name for the device.
        accelerators: by platform; those that were asked for.
        libraries: importable Python packages that custom calls need, or None if unknown.
        devices_fixed: whether XLA has started with this number of devices; otherwise a processor
            can be any number.
    """

    platform: str
    architecture: str
    cpu: str
    isa: frozenset[str]
    jaxlib: str
    devices: int
    memory_bytes: int
    os: str = ""
    kernel: str = ""
    libc: str = ""
    python: str = ""
    runtime: str = ""
    bundle_format: str = ""
    device_kind: str = ""
    accelerators: tuple[Accelerator, ...] = ()
    libraries: tuple[str, ...] | None = None
    devices_fixed: bool = False

    def accelerator(self, platform: str) -> Accelerator:
        """Return the host's accelerators of a platform; without devices if there are none."""
        found = (each for each in self.accelerators if each.platform == platform)
        return next(found, Accelerator(platform, 0))


class Wanted(Struct, frozen=True):
    """The facts needed to evaluate a bundle, or one of its targets.

    `devices` is the number to divide the processor into. `platforms` are of accelerators, sorted,
    by engine; an engine that runs executables on the processor has none.
    """

    devices: int
    platforms: Mapping[str, tuple[str, ...]]
