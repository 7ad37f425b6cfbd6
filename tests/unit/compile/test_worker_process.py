"""The compile worker's process: memory is laid out the same way each time."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
