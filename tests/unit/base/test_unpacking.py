"""MessagePack that several threads read."""

import subprocess
import sys

import pytest
from msgspec import Struct, ValidationError, msgpack

from aotc.base.msgpack_values import unpack

AT_ONCE = """
import sys, threading
import msgspec
from aotc.base.msgpack_values import unpack

sys.setswitchinterval(1e-6)
for number in range(200):
    Inner = msgspec.defstruct("Inner", [("a", int)], module=__name__)
    Outer = msgspec.defstruct(
        "Outer", [(f"f{k}", "Inner") for k in range(4)] + [("z", "list[Inner]")], module=__name__
    )
    one = {"a": 1}
    data = msgspec.msgpack.encode({**{f"f{k}": one for k in range(4)}, "z": [one] * 300})
    ready = threading.Barrier(3)

    def read():
        ready.wait()
        READ

    threads = [threading.Thread(target=read) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


def ended(read: str) -> int:
    code = AT_ONCE.replace("READ", read)
    return subprocess.run([sys.executable, "-c", code], check=False).returncode


def test_threads_read_a_structure_for_the_first_time_at_once() -> None:
    """The plain way ends a process in about one of 200 times, hence this function."""
    assert ended("unpack(data, Outer)") == 0
    assert any(ended("msgspec.msgpack.decode(data, type=Outer)") < 0 for _ in range(20))


class Point(Struct):
    x: int


def test_what_is_of_another_type_is_an_error() -> None:
    assert unpack(msgpack.encode(Point(3)), Point) == Point(3)
    with pytest.raises(ValidationError):
        unpack(msgpack.encode({"x": "3"}), Point)
