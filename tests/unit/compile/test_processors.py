"""A process can be made to see another number of processors, with the kernel's manners."""

from __future__ import annotations

import subprocess
import sys

import pytest

SEEN = """
import ctypes, errno, os, sys
from aotc.compile.xla import processor_count as processors

count = int(sys.argv[1])
assert processors.pretend(count)
assert len(os.sched_getaffinity(0)) == count
assert os.sched_getaffinity(0) == set(range(count))
libc = ctypes.CDLL(None, use_errno=True)
small = ctypes.create_string_buffer(b"x" * 999)
assert libc.sched_getaffinity(0, ctypes.c_size_t(count // 8), small) == -1
assert ctypes.get_errno() == errno.EINVAL
assert small.raw == b"x" * 999 + bytes(1), "nothing is written into a mask that is too small"
fitting = ctypes.c_size_t(count // 8 + 1)
assert libc.sched_getaffinity(0, fitting, small) == 0
assert small.raw[count // 8 + 1 : 999] == b"x" * (998 - count // 8)
print("ok")
"""


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 64, 65, 1024, 4096])
def test_a_process_sees_the_processors_it_was_told(count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SEEN, str(count)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "ok\n", done.stderr
