"""Arrays of an .npz file: where each lies in it, as `numpy.savez` writes them.

https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html has the format of a member.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

from aotc.capture.model_files.model_archive import Damaged, read_archive
from aotc_runtime.schema.bundle_manifest import DType

BEGINS = b"PK\x03\x04"
ENDING = ".npy"
HEADER_BYTES_MAX = 2**16
_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True, slots=True)
class Array:
    """An array that lies in a file from `start` on, little-endian and in C order."""

    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def arrays(data: memoryview) -> Iterator[tuple[str, Array]]:
    """The arrays of a file, by name. Checksums are checked. Raises Damaged."""
    whole = _address(data)
    for name, member in read_archive(data).members.items():
        if not name.endswith(ENDING) or name == ENDING:
            raise Damaged("members that numpy.savez writes", f"{name}, as of torch.save")
        known = name.removesuffix(ENDING)
        array, begin = _array(known, bytes(member[:HEADER_BYTES_MAX]))
        if begin + prod(array.shape) * array.dtype.itemsize != len(member):
            raise Damaged(f"{known} of the size that its header says", f"{len(member)} bytes")
        yield known, Array(_address(member) - whole + begin, array.dtype, array.shape)


def _array(name: str, head: bytes) -> tuple[Array, int]:
    """What a member's header says, and where its numbers begin in it."""
    stream = BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        shape, is_fortran, dtype = _READERS[version](stream, HEADER_BYTES_MAX)
    except (ValueError, KeyError) as error:
        raise Damaged(f"{name} as an array of numpy", "another header") from error
    if dtype.name not in {*DType}:
        raise Damaged(f"numbers in {name}, of a dtype that numpy itself has", str(dtype))
    if dtype != dtype.newbyteorder("<"):
        raise Damaged(f"{name} in little-endian order", str(dtype))
    if is_fortran:
        raise Damaged(f"{name} in C order (numpy.ascontiguousarray)", "Fortran order")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise Damaged(f"{name} of a shape", str(shape))
    return Array(0, dtype, shape), stream.tell()


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address
