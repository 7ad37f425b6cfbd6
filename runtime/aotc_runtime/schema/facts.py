"""What a host is, as plain facts: gathered by `aotc_runtime.system.host`, judged elsewhere."""

from __future__ import annotations

from msgspec import Struct


class HostFacts(Struct, frozen=True):
    """platform: "cpu".  architecture: "x86_64".  isa: processor features in LLVM's spelling.
    jaxlib: the version that will run the executables.  devices: how many there are.
    memory_bytes: what this process may still allocate (free or cgroup limit, the less).
    """

    platform: str
    architecture: str
    cpu: str
    isa: frozenset[str]
    jaxlib: str
    devices: int
    memory_bytes: int
