"""Tensors of a model file as numpy arrays: lengths are checked before anything is made of them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from aotc.base.errors import refusal
from aotc.capture.model_files.frontend_protocol import Array
from aotc.frontends.onnx.onnx_refusals import bad_model, lacking, quote

DTYPES: dict[int, np.dtype[Any]] = {
    kind: np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    for name, kind in TensorProto.DataType.items()
    if name not in ("UNDEFINED", "STRING") and not name.startswith("FLOAT6")
}
"""numpy's dtype of each of ONNX's."""

_BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
"""Bits of types of less than a byte."""


def dtype_of(kind: int, where: str) -> np.dtype[Any]:
    """Return the dtype of one of TensorProto's numbers. Raises CaptureError."""
    found = DTYPES.get(kind)
    if found is not None:
        return found
    if kind in TensorProto.DataType.values() and kind != TensorProto.UNDEFINED:
        name, cause = TensorProto.DataType.Name(kind), "unsupported-type-in-the-model"
        raise refusal("AOTC-E844", where, f"type {name}", cause=cause)
    raise bad_model(where, f"the unknown type {kind}")


def size_of(dimensions: tuple[int, ...], where: str) -> int:
    """Return the number of elements of a shape as the file states it."""
    if any(size < 0 for size in dimensions):
        raise bad_model(where, f"the shape {list(dimensions)}")
    return math.prod(dimensions)


def _external(tensor: Any, needed: int, beside: Callable[[str], bytes], where: str) -> memoryview:
    """Return the bytes of a tensor that another file holds."""
    stated = {entry.key: entry.value for entry in tensor.external_data}
    location = stated.get("location", "")
    parts = location.replace("\\", "/").split("/")
    if not location or location[:1] in "/\\" or ".." in parts or ":" in parts[0]:
        raise bad_model(
            where,
            f"the data file {quote(location)}",
            expected="a relative path to a file in the model's folder",
        )
    if not location.isprintable():
        raise bad_model(where, f"the unprintable file name {quote(location)}")
    try:
        offset = int(stated.get("offset") or 0)
        length = int(stated.get("length") or needed)
    except ValueError as error:
        raise bad_model(where, "an offset or length other than a number") from error
    data = beside(location)
    if length != needed:
        raise bad_model(where, f"{length} bytes of data", expected=f"{needed} bytes, for its shape")
    if offset < 0 or offset + length > len(data):
        raise bad_model(
            where,
            f"data at bytes {offset} to {offset + length} of {quote(location)}, which has "
            f"{len(data)}",
        )
    return memoryview(data)[offset : offset + length]


def to_array(tensor: Any, beside: Callable[[str], bytes], where: str) -> Array:
    """Return the array of a TensorProto. Raises CaptureError.

    Memory is allocated only for bytes that the file has, whatever the shape.
    """
    kind = tensor.data_type
    dtype = dtype_of(kind, where)
    made: Array
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
            raise bad_model(where, f"{len(raw)} bytes of data", expected=f"{needed}, for its shape")
        if is_packed:
            of_raw = TensorProto(data_type=kind, dims=shape, raw_data=bytes(raw))
            made = numpy_helper.to_array(of_raw)
        else:
            made = np.frombuffer(raw, dtype).reshape(shape)
    else:
        name = helper.tensor_dtype_to_field(kind)
        elements = len(getattr(tensor, name))
        pairs = 2 if dtype.kind == "c" else 1
        stored = needed if is_packed else count * pairs
        if elements != stored:
            raise bad_model(where, f"{elements} elements in {name}", expected=f"{stored}")
        made = numpy_helper.to_array(tensor)
    if dtype == np.bool_ and count and made.view(np.uint8).max() > 1:
        raise bad_model(where, "a bool other than 0 and 1")
    return made
