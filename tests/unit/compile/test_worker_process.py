"""The compile worker's process: memory is laid out the same way each time, it starts anew before it
imports anything large, and it sees as many processors as it is told.
"""

import subprocess
import sys

import pytest

from tests.running import printed

LAYOUT = """
import ctypes
from aotc.compile.xla.xla_worker import fix_address_layout

randomized = fix_address_layout()
libc = ctypes.CDLL(None)
print(randomized, ctypes.cast(libc.malloc, ctypes.c_void_p).value, ctypes.addressof(ctypes.c_int()))
"""


def layout() -> list[str]:
    command = [sys.executable, "-c", LAYOUT]
    environment = {"PYTHONHASHSEED": "0"}
    return subprocess.check_output(command, text=True, env=environment).split()


def test_two_workers_lay_out_their_memory_alike() -> None:
    first = layout()
    if first[0] == "True":
        pytest.skip("this system does not let a process turn address randomization off")
    assert [layout()[1] for _ in range(3)] == [first[1]] * 3


def test_nothing_large_is_imported_before_the_process_starts_anew() -> None:
    program = "import sys; import aotc.compile.xla.xla_worker; print(*sys.modules)"
    imported = printed(program).split()
    assert "aotc.compile.xla.xla_worker" in imported
    assert not {"msgspec", "numpy", "jaxlib", "aotc.base.workers.worker_child"} & set(imported)


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
    assert printed(SEEN, count) == "ok\n"


FOREIGN = """
import os
from types import SimpleNamespace
from aotc.compile.xla import processor_count

before = os.sched_getaffinity(0)
os.uname = lambda: SimpleNamespace(machine="aarch64")
print(processor_count.pretend(len(before) + 1), os.sched_getaffinity(0) == before)
"""


def test_pretend_on_another_architecture_changes_no_code() -> None:
    assert printed(FOREIGN).split() == ["False", "True"]
