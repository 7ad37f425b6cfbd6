"""safetensors, written so that XLA can use the tensors in place.

Tensors whose size is a multiple of 64 bytes come first and the data starts on a 64-byte boundary,
so that every one of them is aligned; the rest follow. Each group is sorted by name, and the header
is padded with spaces: the same tensors give the same bytes.

A weights set is cut into shards, since SHA-256 of one blob is serial.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from aotc.base.errors import refusal
from aotc.base.stages import Chunk, Stored, Tensor
from aotc_runtime.formats.extended_tensors import PARTS, STORED_AS
from aotc_runtime.formats.safetensors_reader import ALIGNMENT, DTYPES, DTYPES_KEY
from aotc_runtime.schema.bundle_manifest import DType

type Array = np.ndarray[Any, Any]

NAMES: dict[DType, str] = {dtype: name for name, (dtype, _) in DTYPES.items()}
"""Dtype to safetensors' name."""
SHARD_BYTES = 16 * 2**20
"""How many bytes of tensors a shard holds at most, unless it holds a single one.

Small enough that 2 GiB give 16 cores 8 shards each, and large enough that what a shard costs
(a descriptor, a header, a thread's turn) is under 1 % of the 8 ms that hashing it takes.
"""


def shards(
    tensors: Mapping[str, Tensor], *, where: str, limit: int = SHARD_BYTES
) -> Iterator[Iterator[Chunk]]:
    """Yield a weights set as one or more safetensors files, one at a time, each in chunks.

    `limit` is the bytes of tensors in a file; a larger tensor is alone in its file. Tensors keep
    their order over all files, each goes where the one before it went if there is room, and an
    empty set is one file. Raises CaptureError (AOTC-E834).
    """
    shard: dict[str, Tensor] = {}
    size = 0
    for name in _order(tensors):
        if shard and size + tensors[name].nbytes > limit:
            yield chunks(shard, where=where)
            shard, size = {}, 0
        shard[name] = tensors[name]
        size += tensors[name].nbytes
    yield chunks(shard, where=where)


def write_tensors(tensors: Mapping[str, Tensor], *, where: str) -> bytes:
    """Return a safetensors file, as `chunks` gives it. Raises CaptureError (AOTC-E834)."""
    return b"".join(chunks(tensors, where=where))


def write_fixture(
    inputs: Mapping[str, Array], outputs: Mapping[str, Array], *, where: str
) -> bytes:
    """Return a call's file: inputs and results by leaf path. Raises CaptureError (AOTC-E834)."""
    tensors = {f"inputs/{path}": array for path, array in inputs.items()}
    tensors |= {f"outputs/{path}": array for path, array in outputs.items()}
    return write_tensors(tensors, where=where)


def chunks(tensors: Mapping[str, Tensor], *, where: str) -> Iterator[Chunk]:
    """Yield a safetensors file: its header, then the bytes of each tensor.

    What the format has no name for is stored as the runtime reads it
    (`aotc_runtime.formats.extended_tensors.STORED_AS`). Raises CaptureError (AOTC-E834) for other
    dtypes.
    """
    known = {
        name: tensor if isinstance(tensor, Stored) else _little_endian(tensor)
        for name, tensor in tensors.items()
    }
    order = _order(known)
    header: dict[str, Any] = {}
    extended: dict[str, str] = {}
    position = 0
    for name in order:
        array = known[name]
        dtype = _dtype(array.dtype, f"{where} {name}")
        shape = list(array.shape)
        if dtype in STORED_AS:
            extended[name] = dtype.value
            shape += [PARTS] if dtype is DType.COMPLEX128 else []
        header[name] = {
            "data_offsets": [position, position + array.nbytes],
            "dtype": STORED_AS.get(dtype) or NAMES[dtype],
            "shape": shape,
        }
        position += array.nbytes
    if extended:
        named = msgspec.json.encode(extended, order="sorted").decode()
        header = {"__metadata__": {DTYPES_KEY: named}, **header}
    text = msgspec.json.encode(header)
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        tensor = known[name]
        if isinstance(tensor, Stored):
            yield from tensor.chunks()
        else:
            # numpy hands out no buffer of types that it did not bring along.
            yield memoryview(tensor.reshape(-1).view(np.uint8))


def _order(tensors: Mapping[str, Tensor]) -> list[str]:
    return sorted(tensors, key=lambda name: (tensors[name].nbytes % ALIGNMENT != 0, name))


def _little_endian(array: Array) -> Array:
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    if contiguous.dtype.byteorder == ">":
        return contiguous.astype(contiguous.dtype.newbyteorder("<"))
    return contiguous


def _dtype(dtype: np.dtype[Any], where: str) -> DType:
    try:
        return DType(dtype.name)
    except ValueError:
        expected = "one of: " + ", ".join(DType)
        raise refusal("AOTC-E834", where, dtype.name, expected=expected) from None
