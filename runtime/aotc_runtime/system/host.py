"""What this host is: processor, jaxlib, devices and memory, as `HostFacts`."""

from __future__ import annotations

import os
from pathlib import Path

from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.system import pjrt

_UNLIMITED = 2**60


def detect() -> HostFacts:
    """The facts of this process' host. Starts jaxlib; raises what `pjrt.device` raises."""
    device = pjrt.device()
    triple, cpu, features = device.machine()
    return HostFacts(
        platform="cpu",
        architecture=triple.partition("-")[0],
        cpu=cpu,
        isa=features,
        jaxlib=device.jaxlib,
        devices=device.device_count,
        memory_bytes=available_memory(Path("/proc/meminfo"), Path("/sys/fs/cgroup")),
    )


def available_memory(meminfo: Path, cgroup: Path) -> int:
    """Bytes this process may still allocate: free memory, or what its cgroup has left if less."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _read(meminfo).splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limits = (
        (cgroup / "memory.max", cgroup / "memory.current"),
        (cgroup / "memory/memory.limit_in_bytes", cgroup / "memory/memory.usage_in_bytes"),
    )
    for limit_file, usage_file in limits:
        limit, usage = _read(limit_file).strip(), _read(usage_file).strip()
        if limit.isdigit() and usage.isdigit() and int(limit) < _UNLIMITED:
            free = min(free, max(0, int(limit) - int(usage)))
    return free


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
