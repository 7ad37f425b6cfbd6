"""safetensors, read strictly: the header is checked completely before a tensor is looked at.

Format: https://github.com/huggingface/safetensors#format. 8 bytes little-endian header length, a
JSON object of name to {dtype, shape, data_offsets}, then the data. Tensors must fill the data
without holes or overlaps, in the order of their offsets.
"""

from functools import cache
from math import prod
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from aotc_runtime.base import limits
from aotc_runtime.base.canonical_json import check_keys, decoder
from aotc_runtime.base.errors import refusal
from aotc_runtime.schema.bundle_manifest import DType
from aotc_runtime.schema.pytrees import INTEGER_MAX

ALIGNMENT = 64
"""XLA uses host memory in place only at this alignment (bytes)."""

DTYPES: dict[str, tuple[DType, int]] = {
    "BOOL": (DType.BOOL, 1),
    "U8": (DType.UINT8, 1),
    "I8": (DType.INT8, 1),
    "F8_E4M3": (DType.FLOAT8_E4M3FN, 1),
    "F8_E5M2": (DType.FLOAT8_E5M2, 1),
    "I16": (DType.INT16, 2),
    "U16": (DType.UINT16, 2),
    "F16": (DType.FLOAT16, 2),
    "BF16": (DType.BFLOAT16, 2),
    "I32": (DType.INT32, 4),
    "U32": (DType.UINT32, 4),
    "F32": (DType.FLOAT32, 4),
    "C64": (DType.COMPLEX64, 8),
    "F64": (DType.FLOAT64, 8),
    "I64": (DType.INT64, 8),
    "U64": (DType.UINT64, 8),
}
"""safetensors' name to dtype and bytes per element."""

DTYPES_KEY = "aotc.dtypes"
"""A key of the file's metadata: which tensors are of a type that the format has no name for, as a
JSON object of tensor name to dtype (`formats.extended_tensors`)."""

Array = np.ndarray[Any, Any]

_Integer = Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[_Integer, ...]
    data_offsets: tuple[_Integer, _Integer]


class TensorInfo(Struct, frozen=True):
    """The position of a tensor; `start` and `end` are bytes from the beginning of the file."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


def read_tensors(data: memoryview, *, where: str) -> dict[str, TensorInfo]:
    """Return the tensors of a safetensors file by name, in file order.

    Raises BundleFormatError: AOTC-E131 header, E132 tensor entry, E133 holes or overlaps.
    """
    if len(data) < 8:
        raise refusal("AOTC-E131", where, f"{len(data)} bytes", expected="at least 8 bytes")
    length = int.from_bytes(data[:8], "little")
    if length > limits.TENSOR_HEADER_BYTES_MAX or 8 + length > len(data):
        limit = min(limits.TENSOR_HEADER_BYTES_MAX, len(data) - 8)
        found, expected = f"a header of {length} bytes", f"a header of at most {limit} bytes"
        raise refusal("AOTC-E131", where, found, expected=expected)
    header = bytes(data[8 : 8 + length])
    entries, extended = _entries(header, where)
    begin, size = 8 + length, len(data) - 8 - length
    tensors: dict[str, TensorInfo] = {}
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].data_offsets, item[0])):
        start, end = entry.data_offsets
        known = DTYPES.get(entry.dtype)
        if known is None:
            expected = "one of " + ", ".join(DTYPES)
            raise refusal("AOTC-E132", f"{where} {name}", f"dtype {entry.dtype}", expected=expected)
        dtype, item_bytes = known
        if len(entry.shape) > limits.TENSOR_RANK_MAX:
            expected = f"at most {limits.TENSOR_RANK_MAX} axes"
            found = f"{len(entry.shape)} axes"
            raise refusal("AOTC-E132", f"{where} {name}", found, expected=expected)
        counted = item_bytes * prod(filter(None, entry.shape))  # as numpy does beside an axis of 0
        if min(entry.shape, default=0) < 0 or counted > INTEGER_MAX:
            raise refusal("AOTC-E132", f"{where} {name}", f"shape {entry.shape}")
        wanted = prod(entry.shape) * item_bytes
        if end - start != wanted:
            expected = f"{wanted} bytes for {entry.dtype}{list(entry.shape)}"
            raise refusal("AOTC-E132", f"{where} {name}", f"{end - start} bytes", expected=expected)
        if start != position:
            expected = f"offset {position}"
            raise refusal("AOTC-E133", f"{where} {name}", f"offset {start}", expected=expected)
        position = end
        shape = entry.shape
        if name in extended:
            from aotc_runtime.formats.extended_tensors import extended_tensor

            dtype, shape = extended_tensor(extended[name], entry.dtype, shape, f"{where} {name}")
        tensors[name] = TensorInfo(dtype, shape, begin + start, begin + end)
    if position != size:
        raise refusal("AOTC-E133", where, f"{size} bytes of data", expected=f"{position} bytes")
    return tensors


def _entries(header: bytes, where: str) -> tuple[dict[str, _Entry], dict[str, DType]]:
    """Return the header's entries, and the dtypes that its metadata names."""
    extended: dict[str, DType] = {}
    if not header.startswith(b"{"):
        raise refusal("AOTC-E131", where, "", expected="a JSON object as header")
    try:
        raw = decoder(dict[str, msgspec.Raw]).decode(header)
        metadata = raw.pop("__metadata__", None)
        if metadata is not None:
            named = decoder(dict[str, str]).decode(metadata).get(DTYPES_KEY, "{}")
            extended = decoder(dict[str, DType]).decode(named)
            check_keys(named.encode())
        entries = {name: decoder(_Entry).decode(item) for name, item in raw.items()}
        check_keys(header)
        if unknown := extended.keys() - entries.keys():
            raise ValueError(f"a dtype for unknown tensor {min(unknown)}")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refusal("AOTC-E131", where, str(error)) from error
    return entries, extended


@cache
def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the numpy dtype of a manifest's dtype."""
    try:
        found: np.dtype[Any] = np.dtype(dtype.value)
    except TypeError:  # one of the types that ml_dtypes adds to numpy's
        import ml_dtypes

        found = np.dtype(getattr(ml_dtypes, dtype.value))
    return found


def tensor_views(data: memoryview, where: str) -> dict[str, tuple[Array, TensorInfo]]:
    """Return the tensors of a safetensors blob, as views over its bytes.

    Raises BundleFormatError (AOTC-E131 to E133).
    """
    views = {}
    for name, info in read_tensors(data, where=where).items():
        flat = np.frombuffer(data[info.start : info.end], numpy_dtype(info.dtype))
        views[name] = (flat.reshape(info.shape), info)
    return views
