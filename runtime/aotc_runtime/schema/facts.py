"""What a host is, as plain facts: gathered by `aotc_runtime.system.host`, judged elsewhere."""

from __future__ import annotations

from msgspec import Struct


class HostFacts(Struct, frozen=True):
    """platform: "cpu".  architecture: "x86_64".  isa: processor features in LLVM's spelling, which
    the operating system and a hypervisor let programs use; cpu: the processor's name, which says
    nothing about them.  jaxlib: the version that will run the executables.  devices: how many there
    are.  memory_bytes: what this process may still allocate (free or cgroup limit, the less).

    The others are "" where unknown. os: "linux".  libc: name and version, "glibc 2.36".
    runtime: version of aotc-runtime.  bundle_format: the newest it reads.  device_kind: jaxlib's
    name for the device.
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
