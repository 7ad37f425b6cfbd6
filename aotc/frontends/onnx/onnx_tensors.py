"""Tensors of a model file as numpy arrays: lengths are checked before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from aotc.capture.model_files.frontend_protocol import Array
from aotc.frontends.onnx.onnx_refusals import damaged, lacking, shown

DTYPES: dict[int, np.dtype[Any]] = {
    kind: np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    for name, kind in TensorProto.DataType.items()
    if name not in ("UNDEFINED", "STRING") and not name.startswith("FLOAT6")
}
"""numpy's dtype of each of ONNX's."""

_BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
"""Bits of types of less than a byte."""

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
    """Return the dtype of one of TensorProto's numbers. Raises CaptureError."""
    found = DTYPES.get(kind)
    if found is not None:
        return found
    if kind in TensorProto.DataType.values() and kind != TensorProto.UNDEFINED:
        raise lacking(where, f"the type {TensorProto.DataType.Name(kind)}")
    raise damaged(where, f"the unknown type {kind}")


def size_of(dimensions: tuple[int, ...], where: str) -> int:
    """Return the number of elements of a shape as the file states it."""
    if any(size < 0 for size in dimensions):
        raise damaged(where, f"the shape {list(dimensions)}")
    return math.prod(dimensions)


def _unpacked(raw: np.ndarray[Any, Any], count: int, bits: int, dtype: np.dtype[Any]) -> Array:
    """Return elements of less than a byte, the first in a byte's lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts: Array = (raw[:, None] >> shifts & ((1 << bits) - 1)).reshape(-1)[:count].astype(np.uint8)
    if dtype == np.dtype(ml_dtypes.float4_e2m1fn):
        return parts.view(dtype)
    if dtype.name.startswith("int"):
        parts = (parts ^ (1 << bits - 1)).astype(np.int8) - np.int8(1 << bits - 1)
    return parts.astype(dtype)


def _external(tensor: Any, needed: int, beside: Callable[[str], bytes], where: str) -> memoryview:
    """Return the bytes of a tensor that another file holds."""
    stated = {entry.key: entry.value for entry in tensor.external_data}
    location = stated.get("location", "")
    parts = location.replace("\\", "/").split("/")
    if not location or location[:1] in "/\\" or ".." in parts or ":" in parts[0]:
        raise damaged(
            where,
            f"the data file {shown(location)}",
            expected="a relative path to a file in the model's folder",
        )
    if not location.isprintable():
        raise damaged(where, f"the unprintable file name {shown(location)}")
    try:
        offset = int(stated.get("offset") or 0)
        length = int(stated.get("length") or needed)
    except ValueError as error:
        raise damaged(where, "an offset or length other than a number") from error
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
    """Return the array of a TensorProto. Raises CaptureError.

    Memory is allocated only for bytes that the file has, whatever the shape.
    """
    kind = tensor.data_type
    dtype = dtype_of(kind, where)
    shape = tuple(tensor.dims)
    count = size_of(shape, where)
    bits = _BITS.get(dtype.name, dtype.itemsize * 8)
    is_packed = dtype.name in _BITS
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
        stored = needed if is_packed else count * pairs
        if len(elements) != stored:
            raise damaged(where, f"{len(elements)} elements in {name}", expected=f"{stored}")
        wide = _WIDTHS.get(name, np.uint64 if name == "uint64_data" else np.int64)
        numbers = np.array(elements, wide)
        if name in _WIDTHS or name == "int64_data" or kind == TensorProto.UINT64:
            flat = numbers.view(np.uint8)
        elif is_packed:
            flat = numbers.astype(np.uint8)
        elif dtype.kind in "iub":
            flat = numbers.astype(dtype).view(np.uint8)
        else:
            flat = numbers.astype(f"u{dtype.itemsize}").view(np.uint8)
    if is_packed:
        return _unpacked(flat, count, bits, dtype).reshape(shape)
    if dtype == np.bool_ and count and flat.max() > 1:
        raise damaged(where, "a bool other than 0 and 1")
    return flat.view(dtype).reshape(shape)
