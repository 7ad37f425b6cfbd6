"""Probe this host for `HostFacts`: system, libraries and memory; engines add the rest."""

import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

from aotc_runtime.schema.bundle_manifest import FORMAT_VERSION
from aotc_runtime.schema.host_facts import VERSION, Accelerator, HostFacts, Machine

_UNLIMITED = 2**60

LIBRARIES = ("scipy",)
"""jaxlib takes LAPACK from it, and imports it only for that."""


def facts(
    machine: Machine,
    devices: int | None,
    memory_limit: int | None,
    accelerators: tuple[Accelerator, ...],
) -> HostFacts:
    """Return the facts of this process' host; `devices` is the number wanted of the processor.

    `memory_limit` is the bytes that a bundle may need; by default what this process may allocate.
    """
    system = os.uname()
    return HostFacts(
        platform="cpu",
        architecture=machine.architecture,
        cpu=machine.cpu,
        isa=machine.features,
        jaxlib=machine.jaxlib,
        devices=machine.devices or devices or 1,
        memory_bytes=free_memory() if memory_limit is None else memory_limit,
        os=system.sysname.lower(),
        kernel=system.release,
        libc=libc(),
        python=".".join(map(str, sys.version_info[:3])),
        runtime=VERSION,
        bundle_format=FORMAT_VERSION,
        device_kind=machine.kind,
        libraries=tuple(name for name in LIBRARIES if is_installed(name)),
        accelerators=accelerators,
        devices_fixed=machine.devices > 0 and devices is not None,
    )


def is_installed(package: str) -> bool:
    """Return whether a package can be imported: takes 0.04 ms, importing scipy 100 ms."""
    return sys.modules.get(package) is not None or spec_of(package) is not None


def spec_of(package: str) -> ModuleSpec | None:
    """Return where a package would be imported from, as `importlib.util`, which takes longer."""
    if package in sys.modules:
        return getattr(sys.modules[package], "__spec__", None)
    try:
        found = (finder.find_spec(package, None) for finder in sys.meta_path)
        return next(filter(None, found), None)
    except ImportError:  # of a finder that refuses it
        return None


def libc() -> str:
    """Name and version of the C library, "glibc 2.36"; "" if it does not say."""
    try:
        found = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, OSError, ValueError):
        found = None
    if found:
        return found
    import platform  # slower, and only of use without glibc

    return " ".join(platform.libc_ver()).strip()


def free_memory() -> int:
    """Return bytes that this process may still allocate, now."""
    return available_memory("/proc/meminfo", "/sys/fs/cgroup", "/proc/self/cgroup")


def available_memory(meminfo: str, cgroup: str, membership: str) -> int:
    """Return the bytes this process may still allocate: free memory, or a cgroup's rest if less.

    `cgroup` is where cgroups are mounted; `membership` names this process' own, and each above it
    may have a limit too. A container mostly sees its own cgroup as the uppermost one.
    """
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _read(meminfo).splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    paths = {"": "/", "memory": "/"}
    for line in _read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    for folder in _upwards(cgroup, paths[""]):
        free = min(free, _left(folder, "memory.max", "memory.current", ""))
    for folder in _upwards(f"{cgroup}/memory", paths["memory"]):
        usage = "memory.usage_in_bytes"
        free = min(free, _left(folder, "memory.limit_in_bytes", usage, "total_"))
    return free


def _upwards(root: str, path: str) -> Iterator[str]:
    """Yield the cgroup's folder and those above it."""
    inside = path.strip("/")
    while inside:
        yield f"{root}/{inside}"
        inside = inside.rpartition("/")[0]
    yield root


def _left(folder: str, limit_file: str, usage_file: str, prefix: str) -> int:
    limit = _read(f"{folder}/{limit_file}").strip()
    usage = _read(f"{folder}/{usage_file}").strip() if limit.isdigit() else ""
    if not usage.isdigit():
        return _UNLIMITED
    # Files in the page cache count as usage and are given back as soon as somebody needs memory;
    # a bundle that was just fetched is such a file.
    cached = (f"{prefix}active_file", f"{prefix}inactive_file")
    for line in _read(f"{folder}/memory.stat").splitlines():
        name, _, count = line.partition(" ")
        if name in cached:
            usage = str(int(usage) - int(count))
    return max(0, int(limit) - int(usage))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
