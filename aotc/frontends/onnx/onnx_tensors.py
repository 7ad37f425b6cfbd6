"""Tensors of a model file as numpy arrays: lengths are checked before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from aotc.capture.model_files.frontend_protocol import Array
from aotc.frontends.onnx.onnx_refusals import damaged, lacking, shown

DTYPES: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.DOUBLE: np.dtype(np.float64),
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TensorProto.INT8: np.dtype(np.int8),
    TensorProto.INT16: np.dtype(np.int16),
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.INT64: np.dtype(np.int64),
    TensorProto.UINT8: np.dtype(np.uint8),
    TensorProto.UINT16: np.dtype(np.uint16),
    TensorProto.UINT32: np.dtype(np.uint32),
    TensorProto.UINT64: np.dtype(np.uint64),
    TensorProto.BOOL: np.dtype(np.bool_),
    TensorProto.COMPLEX64: np.dtype(np.complex64),
    TensorProto.COMPLEX128: np.dtype(np.complex128),
    TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    TensorProto.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    TensorProto.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    TensorProto.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
"""numpy's dtype of each of ONNX's, those of newer releases of onnx added below."""

_PACKED: dict[int, tuple[int, np.dtype[Any]]] = {}
"""Types of less than a byte: bits, dtype."""

for _name, _bits, _dtype in (
    ("FLOAT8E8M0", 8, "float8_e8m0fnu"),
    ("INT4", 4, "int4"),
    ("UINT4", 4, "uint4"),
    ("FLOAT4E2M1", 4, "float4_e2m1fn"),
    ("INT2", 2, "int2"),
    ("UINT2", 2, "uint2"),
):
    if hasattr(TensorProto, _name) and hasattr(ml_dtypes, _dtype):
        DTYPES[getattr(TensorProto, _name)] = np.dtype(getattr(ml_dtypes, _dtype))
        if _bits < 8:
            _PACKED[getattr(TensorProto, _name)] = _bits, np.dtype(getattr(ml_dtypes, _dtype))

_FIELDS = {
    TensorProto.FLOAT: "float_data",
    TensorProto.COMPLEX64: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.COMPLEX128: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
}
"""Where a tensor without raw data has its elements; the others in int32_data."""

_WIDTHS = {"float_data": np.float32, "double_data": np.float64}


def dtype_of(kind: int, where: str) -> np.dtype[Any]:
    """The dtype of one of TensorProto's numbers. Raises CaptureError."""
    found = DTYPES.get(kind)
    if found is not None:
        return found
    if kind in TensorProto.DataType.values() and kind != TensorProto.UNDEFINED:
        raise lacking(where, f"the type {TensorProto.DataType.Name(kind)}")
    raise damaged(where, f"the unknown type {kind}")


def size_of(dimensions: tuple[int, ...], where: str) -> int:
    """The number of elements of a shape as the file states it."""
    if any(size < 0 for size in dimensions):
        raise damaged(where, f"the shape {list(dimensions)}")
    return math.prod(dimensions)


def _unpacked(raw: np.ndarray[Any, Any], count: int, bits: int, dtype: np.dtype[Any]) -> Array:
    """Elements of less than a byte, the first in a byte's lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts: Array = (raw[:, None] >> shifts & ((1 << bits) - 1)).reshape(-1)[:count].astype(np.uint8)
    if dtype == np.dtype(ml_dtypes.float4_e2m1fn):
        return parts.view(dtype)
    if dtype.name.startswith("int"):
        parts = (parts ^ (1 << bits - 1)).astype(np.int8) - np.int8(1 << bits - 1)
    return parts.astype(dtype)


def _external(tensor: Any, needed: int, beside: Callable[[str], bytes], where: str) -> memoryview:
    """The bytes of a tensor that another file holds."""
    stated = {entry.key: entry.value for entry in tensor.external_data}
    location = stated.get("location", "")
    parts = location.replace("\\", "/").split("/")
    if not location or location[:1] in "/\\" or ".." in parts or ":" in parts[0]:
        raise damaged(
            where,
            f"data in the file {shown(location)}",
            expected="a file in the model's folder, by its relative path",
        )
    if not location.isprintable():
        raise damaged(where, f"data in a file with the name {shown(location)}")
    try:
        offset = int(stated.get("offset") or 0)
        length = int(stated.get("length") or needed)
    except ValueError as error:
        raise damaged(where, "an offset or a length that is no number") from error
    data = beside(location)
    if length != needed:
        raise damaged(where, f"{length} bytes of data", expected=f"{needed} bytes, for its shape")
    if offset < 0 or offset + length > len(data):
        raise damaged(
            where,
            f"data at bytes {offset} to {offset + length} of {shown(location)}, which has "
            f"{len(data)}",
        )
    return memoryview(data)[offset : offset + length]


def to_array(tensor: Any, beside: Callable[[str], bytes], where: str) -> Array:
    """The array that a TensorProto is. Raises CaptureError.

    Nothing is allocated for a shape but what the file has bytes for.
    """
    kind = tensor.data_type
    dtype = dtype_of(kind, where)
    shape = tuple(tensor.dims)
    count = size_of(shape, where)
    bits, _ = _PACKED.get(kind, (dtype.itemsize * 8, dtype))
    needed = -(-count * bits // 8)
    external = tensor.data_location == TensorProto.EXTERNAL
    if tensor.HasField("segment"):
        raise lacking(where, "a tensor in segments")
    if external or tensor.HasField("raw_data"):
        raw = _external(tensor, needed, beside, where) if external else tensor.raw_data
        if len(raw) != needed:
            raise damaged(where, f"{len(raw)} bytes of data", expected=f"{needed}, for its shape")
        flat = np.frombuffer(raw, np.uint8)
    else:
        name = _FIELDS.get(kind, "int32_data")
        elements = getattr(tensor, name)
        pairs = 2 if kind in (TensorProto.COMPLEX64, TensorProto.COMPLEX128) else 1
        stored = needed if kind in _PACKED else count * pairs
        if len(elements) != stored:
            raise damaged(where, f"{len(elements)} elements in {name}", expected=f"{stored}")
        wide = _WIDTHS.get(name, np.uint64 if name == "uint64_data" else np.int64)
        numbers = np.array(elements, wide)
        if name in _WIDTHS or name == "int64_data" or kind == TensorProto.UINT64:
            flat = numbers.view(np.uint8)
        elif kind in _PACKED:
            flat = numbers.astype(np.uint8)
        elif dtype.kind in "iub":
            flat = numbers.astype(dtype).view(np.uint8)
        else:
            flat = numbers.astype(f"u{dtype.itemsize}").view(np.uint8)
    if kind in _PACKED:
        return _unpacked(flat, count, bits, dtype).reshape(shape)
    if dtype == np.bool_ and count and flat.max() > 1:
        raise damaged(where, "a bool that is neither 0 nor 1")
    return flat.view(dtype).reshape(shape)
