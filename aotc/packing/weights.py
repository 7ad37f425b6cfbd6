"""safetensors, written so that XLA can use the tensors in place.

Tensors whose size is a multiple of 64 bytes come first and the data starts on a 64-byte boundary,
so that every one of them is aligned; the rest follow. Each group is sorted by name, and the header
is padded with spaces: the same tensors give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from aotc.errors import CaptureError
from aotc_runtime.errors import Finding
from aotc_runtime.formats.tensors import ALIGNMENT, NAMES
from aotc_runtime.schema.manifest import DType


def write_tensors(tensors: Mapping[str, np.ndarray[Any, Any]], *, where: str) -> bytes:
    """A safetensors file. Raises CaptureError (AOTC-E834) for a dtype the format cannot hold."""
    arrays = {name: _little_endian(array) for name, array in tensors.items()}
    order = sorted(arrays, key=lambda name: (arrays[name].nbytes % ALIGNMENT != 0, name))
    header: dict[str, Any] = {}
    position = 0
    for name in order:
        array = arrays[name]
        header[name] = {
            "data_offsets": [position, position + array.nbytes],
            "dtype": _dtype_name(array.dtype, f"{where} {name}"),
            "shape": list(array.shape),
        }
        position += array.nbytes
    text = msgspec.json.encode(header)
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    parts = [len(text).to_bytes(8, "little"), text, *(arrays[name].tobytes() for name in order)]
    return b"".join(parts)


def _little_endian(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    if contiguous.dtype.byteorder == ">":
        return contiguous.astype(contiguous.dtype.newbyteorder("<"))
    return contiguous


def _dtype_name(dtype: np.dtype[Any], where: str) -> str:
    try:
        return NAMES[DType(dtype.name)]
    except (KeyError, ValueError):
        raise CaptureError(
            Finding(
                code="AOTC-E834",
                where=where,
                expected="a dtype that safetensors can hold: " + ", ".join(NAMES),
                found=dtype.name,
                hint="store it as one of these and convert inside the function",
            )
        ) from None
