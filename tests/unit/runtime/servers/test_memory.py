"""What requests free is kept for those that follow, up to a limit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

TAKING = """
import resource, sys
from aotc_runtime.servers.memory import keep_freed
if sys.argv[1] == "kept":
    keep_freed(2, 2**30)
def faults(pieces, size):
    for _ in range(3):
        every = [b"x" * size for _ in range(pieces)]
        del every
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    every = [b"x" * size for _ in range(pieces)]
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    del every
    return taken, int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
_, least = faults(1, 1)
print(faults(8, 2**20)[0], faults(2, 40 * 2**20)[1] - least)
"""


def taken(how: str, **variables: str) -> tuple[int, int]:
    """Pages that 8 MiB take that were freed just before; bytes that are left of 80 MiB."""
    command = [sys.executable, "-c", TAKING, how]
    environment = {**os.environ, **variables}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    pages, left = said.stdout.split()
    return int(pages), int(left)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_what_was_freed_is_taken_again_without_asking_the_system_for_its_pages() -> None:
    usual, kept = taken("usual"), taken("kept")
    assert usual[0] > 1000 > 10 * kept[0]
    assert kept[1] < 2**25, "what is large is given back"
    said = taken("kept", MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072")
    assert said[0] > 1000, "the environment counts"
