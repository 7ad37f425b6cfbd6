"""What requests free is kept for those that follow, up to a limit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from aotc_runtime.base.errors import AotcError
from aotc_serve.inference.request_memory import COSTS, Claim, Memory


def refused(memory: Memory, size: int, *, is_whole: bool = False) -> bool:
    with pytest.raises(AotcError) as caught:
        Claim(memory, size, is_whole=is_whole)
    assert caught.value.code == "AOTC-E766"
    return True


def test_small_requests_have_a_share_and_those_that_have_arrived_a_part_of_it() -> None:
    memory = Memory(2**20)
    small = memory.small
    large = [Claim(memory, 2**16, is_whole=True) for _ in range(14)]
    assert memory.used == memory.most_of_large == 2**20 * 7 // 8
    assert refused(memory, small + 1, is_whole=True)
    arriving = [Claim(memory, small) for _ in range(4)]
    assert refused(memory, 1)
    for _ in range(2**15 // COSTS.connection):
        memory.connect()
    with pytest.raises(AotcError):
        memory.connect()
    for _ in range(2**15 // COSTS.connection):
        memory.disconnect()
    arrived = [Claim(memory, small, is_whole=True) for _ in range(12)]
    assert memory.used == 2**20 and refused(memory, 1, is_whole=True)
    for claim in (*large, *arriving, *arrived):
        claim.close()
    assert memory.used == 0


def test_small_claim_that_grows_is_small_no_longer() -> None:
    memory = Memory(2**20)
    claim, rest = Claim(memory, memory.small), Claim(memory, memory.most_of_large - 2**13)
    with pytest.raises(AotcError):
        claim.take(2**13)
    assert claim.total == memory.small
    rest.close()
    claim.take(2**13)


def test_connections_count_and_leave_room_for_requests_that_have_arrived() -> None:
    memory = Memory(2**20)
    count = 0
    with pytest.raises(AotcError):
        while True:
            memory.connect()
            count += 1
    assert count == 2**20 * 15 // 16 // COSTS.connection and memory.used == 0
    Claim(memory, memory.small, is_whole=True).close()
    memory.disconnect()
    memory.connect()


def test_what_waits_on_connections_leaves_room_for_others() -> None:
    memory = Memory(2**20)
    waiting = [Claim(memory, is_waiting=True) for _ in range(14)]
    for claim in waiting:
        claim.take(2**16)
    with pytest.raises(AotcError):
        waiting[0].take(1)
    memory.connect()
    Claim(memory, memory.small).close()


def test_claims_that_are_forgotten_are_given_back() -> None:
    memory = Memory(2**20)
    claim = Claim(memory, 1000)
    claim.resize(500)
    assert memory.used == 500
    del claim
    assert memory.used == 0


TAKING = """
import resource, sys
from aotc_serve.inference.request_memory import keep_freed
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
