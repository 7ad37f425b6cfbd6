"""Tensors of the Open Inference Protocol: its datatypes, and its JSON and binary forms as numpy.

Both ways are exact: a number that a datatype cannot hold is refused, and so is a size that lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from aotc_runtime.errors import AotcError, refusal
from aotc_runtime.schema.manifest import DType

Array = np.ndarray[Any, Any]

_FLOATS = {
    DType.FLOAT16: "FP16",
    DType.FLOAT32: "FP32",
    DType.FLOAT64: "FP64",
    DType.BFLOAT16: "BF16",
}

RANK_MAX = 32
"""Lists are nested no deeper than numpy's axes of old."""


EMPTY_LISTS_MAX = 2**12
"""In the JSON of a tensor without elements."""


def datatype_of(dtype: DType) -> str:
    """The protocol's name; for types that it has none for, the manifest's in capitals."""
    return _FLOATS.get(dtype, dtype.value.upper())


class Port(Struct, frozen=True):
    """A tensor that an entry point takes or gives. shape: -1 where a dimension varies.

    within: the least and the greatest value of types that have fewer than the byte that holds one.
    """

    name: str
    datatype: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    within: tuple[int, int] | None = None


BYTES_WITHIN = {DType.BOOL: (0, 1), DType.INT4: (-8, 7), DType.UINT4: (0, 15)}
"""`within` of these types."""


def from_bytes(port: Port, shape: Sequence[int], data: memoryview | bytes) -> Array:
    """The tensor whose little-endian elements these bytes are, as a view where it is aligned.

    Raises ServerError (AOTC-E761).
    """
    count, dtype = prod(shape), port.dtype
    if len(data) != count * dtype.itemsize:
        raise misfit(
            f"input {port.name}",
            f"{len(data)} bytes",
            f"{count * dtype.itemsize} bytes for {port.datatype}{list(shape)}",
        )
    if not count:
        return _shaped(np.empty(0, dtype), shape, port)
    array: Array = np.frombuffer(data, dtype)
    if not array.flags.aligned:
        array = array.copy()
    allowed = port.within
    if allowed is not None:
        plain = array.view(np.int8)
        if plain.min() < allowed[0] or plain.max() > allowed[1]:
            expected = f"bytes from {allowed[0]} to {allowed[1]}"
            raise misfit(f"input {port.name}", "others", f"{expected} for {port.datatype}")
    return _shaped(array, shape, port)


def from_json(port: Port, shape: Sequence[int], raw: bytes | Raw) -> Array:
    """The tensor of a JSON list, flat or nested as its shape. Raises ServerError (AOTC-E761)."""
    element: Any = _ELEMENTS.get(port.dtype.kind)
    if port.dtype.name in ("int4", "uint4"):
        element = int
    if element is None:
        raise misfit(f"input {port.name}", "JSON", f"{port.datatype} as binary data")
    depth = _depth(memoryview(raw)[: 4 * RANK_MAX])
    if depth not in (1, len(shape)) or depth > RANK_MAX:
        expected = f"a list that is flat or nested {len(shape)} deep"
        raise misfit(f"input {port.name}", f"one nested {depth} deep", expected)
    # Values of Python take many times their text: none are made that the shape has no place for.
    if memoryview(raw).tobytes().count(b",") > (prod(shape) or EMPTY_LISTS_MAX):
        raise misfit(f"input {port.name}", "more", f"{prod(shape)} values for its shape")
    for _ in range(depth):
        element = list[element]
    try:
        values = msgspec.json.decode(raw, type=element)
        return from_values(port, shape, values)
    except (msgspec.MsgspecError, RecursionError) as error:
        kind = f"a list of {port.datatype} values"
        raise misfit(f"input {port.name}", str(error), kind) from None


_ELEMENTS = {"b": bool, "i": int, "u": int, "f": float, "V": float}


def _depth(start: memoryview) -> int:
    """How many lists a JSON text opens with."""
    text = bytes(start).translate(None, b" \t\r\n")
    return len(text) - len(text.lstrip(b"["))


def from_values(port: Port, shape: Sequence[int], values: Sequence[Any]) -> Array:
    """The tensor of numbers, or of lists of them. Raises ServerError (AOTC-E761)."""
    where, dtype = f"input {port.name}", port.dtype
    wide: Any = dtype
    if dtype.kind in "fV":
        wide = np.int64 if port.within is not None else np.float64
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            exact = np.array(values, wide)
            array = exact.astype(dtype, copy=False)
            lost = np.isfinite(exact) & ~np.isfinite(array.astype(wide))
            if wide is np.int64:
                lost = exact != array.astype(wide)
    except (ValueError, OverflowError, TypeError) as error:
        raise misfit(where, str(error), f"values of {port.datatype}") from None
    is_flat = array.ndim == 1 and array.size == prod(shape)
    if array.shape != tuple(shape) and not is_flat:
        expected = f"{prod(shape)} values for {port.datatype}{list(shape)}"
        raise misfit(where, f"{array.size} as {list(array.shape)}", expected)
    if lost.any():
        raise misfit(where, "a number beyond its range", f"values of {port.datatype}")
    return _shaped(array, shape, port)


def _shaped(array: Array, shape: Sequence[int], port: Port) -> Array:
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:
        raise misfit(f"input {port.name}", str(error), f"a shape for {port.datatype}") from None


def to_bytes(array: Array) -> memoryview:
    """The elements as little-endian bytes, without a copy where they lie so."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data if flat.size else memoryview(b"")


def to_values(port: Port, array: Array) -> list[Any]:
    """The elements as Python numbers, in one flat list. Raises ServerError (AOTC-E769)."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "c":
        raise misfit(f"output {port.name}", port.datatype, "a datatype that JSON has", binary=True)
    if flat.dtype.kind == "V":
        flat = flat.astype(np.int8 if "int" in flat.dtype.name else np.float64)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise refusal(
            "AOTC-E769",
            f"output {port.name}",
            "NaN or an infinity",
            expected="numbers that JSON can hold",
            hint='ask for binary data: "parameters": {"binary_data_output": true}',
        )
    values: list[Any] = flat.tolist()
    return values


def misfit(where: str, found: str, expected: str, *, binary: bool = False) -> AotcError:
    """The error (AOTC-E761) for a request that does not say what it has to."""
    hint = (
        'ask for binary data: "parameters": {"binary_data_output": true}'
        if binary
        else "the model's metadata say what it takes: GET /v2/models/NAME"
    )
    return refusal("AOTC-E761", where, found, expected=expected, hint=hint)
