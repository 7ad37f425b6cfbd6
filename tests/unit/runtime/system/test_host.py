"""What the host is: memory from files that are given, the rest from jaxlib itself."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import pytest

from aotc_runtime.system.host import available_memory, detect

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MEMINFO = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n"


def files(folder: Path, **contents: str) -> tuple[Path, Path]:
    """A meminfo file and a cgroup folder. contents: file name to text."""
    (folder / "memory").mkdir()
    for name, text in contents.items():
        (folder / name).write_text(text)
    return folder / "meminfo", folder


def test_without_a_limit_it_is_what_the_kernel_calls_available(tmp_path: Path) -> None:
    assert available_memory(*files(tmp_path, meminfo=MEMINFO)) == 8000 * 1024


def test_without_any_file_it_is_the_physical_memory(tmp_path: Path) -> None:
    assert available_memory(tmp_path / "none", tmp_path / "none") == PHYSICAL


@pytest.mark.parametrize(
    ("limit", "usage", "expected"),
    [
        ("5000000\n", "1000000\n", 4_000_000),
        ("5000000", "6000000", 0),
        ("99999999999", "0", 8000 * 1024),
        ("max\n", "1000000\n", 8000 * 1024),
        ("", "", 8000 * 1024),
        ("nonsense", "1", 8000 * 1024),
    ],
)
@pytest.mark.parametrize("cgroup", [1, 2])
def test_a_cgroup_limit_counts_if_it_is_less(
    cgroup: int, limit: str, usage: str, expected: int, tmp_path: Path
) -> None:
    names = {
        1: ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
        2: ("memory.max", "memory.current"),
    }[cgroup]
    found = files(tmp_path, meminfo=MEMINFO, **dict(zip(names, (limit, usage), strict=True)))
    assert available_memory(*found) == expected


def test_cgroup_1_spells_unlimited_as_a_huge_number(tmp_path: Path) -> None:
    found = files(
        tmp_path,
        meminfo=MEMINFO,
        **{
            "memory/memory.limit_in_bytes": "9223372036854771712",
            "memory/memory.usage_in_bytes": "1",
        },
    )
    assert available_memory(*found) == 8000 * 1024


def test_this_host_is_described_by_jaxlib() -> None:
    facts = detect()
    assert facts.platform == "cpu" and facts.architecture == os.uname().machine
    assert facts.jaxlib == version("jaxlib")
    assert facts.devices >= 1 and 0 < facts.memory_bytes <= PHYSICAL
    if facts.architecture == "x86_64":
        assert {"sse2", "64bit"} <= facts.isa
    assert not any(feature.startswith(("+", "-")) for feature in facts.isa)
