"""Tests of the host's facts: memory from given files, the rest from jaxlib."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import pytest

from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.schema.bundle_manifest import FORMAT_VERSION
from aotc_runtime.schema.host_facts import VERSION
from aotc_runtime.system.host_probe import available_memory, libc

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MEMINFO = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n"


OF_CGROUP = {
    1: ("memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    2: ("", "memory.max", "memory.current", ""),
}
"""By version: the folder, names of limit and usage, how names in memory.stat begin."""


def files(folder: Path, **contents: str) -> tuple[Path, Path, Path]:
    """A meminfo file, a cgroup folder, and the cgroup of the process. contents: file to text."""
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "meminfo", folder, folder / "membership"


def test_without_a_limit_it_is_what_the_kernel_calls_available(tmp_path: Path) -> None:
    assert available_memory(*files(tmp_path, meminfo=MEMINFO)) == 8000 * 1024


def test_without_any_file_it_is_the_physical_memory(tmp_path: Path) -> None:
    assert available_memory(*files(tmp_path)) == PHYSICAL


@pytest.mark.parametrize(
    ("limit", "usage", "expected"),
    [
        ("5000000\n", "1000000\n", 4_000_000),
        ("5000000", "6000000", 0),
        ("99999999999", "0", 8000 * 1024),
        ("max\n", "1000000\n", 8000 * 1024),
        ("9223372036854771712", "1", 8000 * 1024),
        ("", "", 8000 * 1024),
        ("nonsense", "1", 8000 * 1024),
    ],
)
@pytest.mark.parametrize("cgroup", [1, 2])
def test_least_counts(cgroup: int, limit: str, usage: str, expected: int, tmp_path: Path) -> None:
    inside, limit_file, usage_file, _ = OF_CGROUP[cgroup]
    contents = {inside + limit_file: limit, inside + usage_file: usage}
    assert available_memory(*files(tmp_path, meminfo=MEMINFO, **contents)) == expected


@pytest.mark.parametrize("cgroup", [1, 2])
def test_files_in_the_page_cache_are_no_usage(cgroup: int, tmp_path: Path) -> None:
    """A bundle that was just downloaded fills its container's memory, on paper."""
    inside, limit_file, usage_file, prefix = OF_CGROUP[cgroup]
    contents = {
        inside + limit_file: "5000000",
        inside + usage_file: "5000000",
        inside + "memory.stat": f"anon 1000000\n{prefix}inactive_file 2500000\n"
        f"{prefix}active_file 500000\nslab 300\n",
    }
    assert available_memory(*files(tmp_path, meminfo=MEMINFO, **contents)) == 3_000_000


@pytest.mark.parametrize("cgroup", [1, 2])
@pytest.mark.parametrize("limited", ["", "system.slice/", "system.slice/server.service/"])
def test_every_cgroup_above_counts(limited: str, cgroup: int, tmp_path: Path) -> None:
    inside, limit_file, usage_file, _ = OF_CGROUP[cgroup]
    line = {1: "7:cpu,memory:", 2: "0::"}[cgroup] + "/system.slice/server.service\n"
    contents = {
        "membership": "3:pids:/elsewhere\n" + line,
        inside + limited + limit_file: "5000000",
        inside + limited + usage_file: "1000000",
        inside + "elsewhere/" + limit_file: "1",
        inside + "elsewhere/" + usage_file: "1",
    }
    assert available_memory(*files(tmp_path, meminfo=MEMINFO, **contents)) == 4_000_000


def test_a_limit_that_is_given_stands_for_what_is_free() -> None:
    assert detect(memory_limit=12345).memory_bytes == 12345


def test_this_host_is_described_by_jaxlib() -> None:
    facts = detect()
    assert facts.platform == "cpu" and facts.architecture == os.uname().machine
    assert facts.jaxlib == version("jaxlib")
    assert facts.devices >= 1 and 0 < facts.memory_bytes <= PHYSICAL
    if facts.architecture == "x86_64":
        assert {"sse2", "64bit"} <= facts.isa
    assert not any(feature.startswith(("+", "-")) for feature in facts.isa)


def test_the_system_is_described_too() -> None:
    facts = detect()
    assert facts.os == "linux" and facts.kernel == os.uname().release
    assert facts.libc.split()[0] in ("glibc", "musl") and facts.libc == libc()
    assert facts.python == platform.python_version()
    assert (facts.runtime, facts.bundle_format) == (VERSION, FORMAT_VERSION)
    assert facts.device_kind == "cpu"
