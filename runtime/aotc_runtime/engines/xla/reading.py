"""Results of XLA as numpy. Private names of jaxlib beside those of `client`:

ArrayImpl._to_np_array_did_copy: of what lies on an accelerator, or on several devices
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from aotc_runtime.engines.device import Array, Aval, Buffer

BUILT_IN = 1
"""numpy's `isbuiltin` of its own types; those of ml_dtypes, whatever their kind, have another."""


def is_plain(aval: Aval) -> bool:
    """Whether results of this kind can be read as they are: one piece, of one of numpy's types."""
    return aval.dtype.isbuiltin == BUILT_IN and aval.placement is None


def copied(buffer: Buffer) -> Array:
    """A copy of what lies on an accelerator."""
    array: Array = buffer._to_np_array_did_copy()[0]
    return array


def joined(buffer: Buffer) -> Array:
    """The pieces that several devices hold, put together; read-only."""
    array = copied(buffer)
    array.flags.writeable = False
    return array


def viewed(buffer: Buffer, aval: Aval) -> Array:
    """What lies in the host's memory: read-only and without a copy, keeping the buffer alive.

    Element types that Python's buffer protocol does not know (bfloat16, float8) are copied.
    """
    if aval.dtype.isbuiltin == BUILT_IN:
        return np.asarray(buffer)
    buffer.block_until_ready()
    count = int(np.prod(aval.shape, dtype=np.int64))
    if count == 0:
        return np.empty(aval.shape, aval.dtype)
    is_packed = is_packed_in_xla(aval.dtype)
    size = (count + 1) // 2 if is_packed else count * aval.dtype.itemsize
    memory = bytes((ctypes.c_char * size).from_address(buffer.unsafe_buffer_pointer()))
    del buffer
    if is_packed:
        memory = _unpacked(memory, count, is_signed=aval.dtype.name == "int4")
    return np.frombuffer(memory, aval.dtype).reshape(aval.shape)


def is_packed_in_xla(dtype: np.dtype[Any]) -> bool:
    """Whether XLA keeps two numbers in a byte, where ml_dtypes has a byte for each."""
    return dtype.name in ("int4", "uint4")


def _unpacked(memory: bytes, count: int, *, is_signed: bool) -> bytes:
    """Numbers of 4 bits, the lower half of a byte first, in a byte each."""
    packed = np.frombuffer(memory, np.uint8)
    numbers = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)[:count]
    return (((numbers ^ 8) - 8) if is_signed else numbers).astype(np.uint8).tobytes()
