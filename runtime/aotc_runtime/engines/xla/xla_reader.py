"""Convert results of XLA that numpy cannot read in place.

They are on an accelerator or on several devices, or of a type that numpy lacks. Private names of
jaxlib beside those of `xla_client`:

    ArrayImpl._to_np_array_did_copy, _single_device_array_to_np_array_did_copy,
        _copy_single_device_array_to_host_async (which only the latter reads), _sharding
"""

import ctypes

import numpy as np

from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer
from aotc_runtime.engines.xla.xla_client import is_packed_in_xla


def copy_buffer(buffer: Buffer) -> Array:
    """Return a copy of an accelerator's buffer on one device."""
    array: Array = buffer._single_device_array_to_np_array_did_copy()[0]
    return array


def join_shards(buffer: Buffer) -> Array:
    """Return the shards of several devices as one read-only array."""
    array: Array = buffer._to_np_array_did_copy()[0]
    array.flags.writeable = False
    return array


def convert_buffer(buffer: Buffer, aval: Aval) -> Array:
    """Return a copy of a host buffer whose type Python's buffer protocol lacks.

    Such types are bfloat16, float8, int4 and uint4; the last two are packed in XLA.
    """
    buffer.block_until_ready()
    count = int(np.prod(aval.shape, dtype=np.int64))
    if count == 0:
        return np.empty(aval.shape, aval.dtype)
    is_packed = is_packed_in_xla(aval.dtype)
    size = (count + 1) // 2 if is_packed else count * aval.dtype.itemsize
    memory = bytes((ctypes.c_char * size).from_address(buffer.unsafe_buffer_pointer()))
    del buffer
    if is_packed:
        memory = _unpack(memory, count, is_signed=aval.dtype.name == "int4")
    return np.frombuffer(memory, aval.dtype).reshape(aval.shape)


def _unpack(memory: bytes, count: int, *, is_signed: bool) -> bytes:
    """Return numbers of 4 bits, the lower half of a byte first, in a byte each."""
    packed = np.frombuffer(memory, np.uint8)
    numbers = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)[:count]
    return (((numbers ^ 8) - 8) if is_signed else numbers).astype(np.uint8).tobytes()
