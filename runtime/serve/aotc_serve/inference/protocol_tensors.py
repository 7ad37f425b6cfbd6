"""Tensors of the Open Inference Protocol: its datatypes, and its JSON and binary forms as numpy.

Both ways are exact: a number that a datatype cannot hold is refused, and so is a size that lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.schema.bundle_manifest import DType

Array = np.ndarray[Any, Any]

_FLOATS = {
    DType.FLOAT16: "FP16",
    DType.FLOAT32: "FP32",
    DType.FLOAT64: "FP64",
    DType.BFLOAT16: "BF16",
}

RANK_MAX = 32
"""Lists are nested no deeper than numpy's axes of old."""

PIECE_BYTES = 2**16
"""Text of JSON that is read at once, holding Python's lock: a millisecond or two."""

PIECE_VALUES = 2**13
"""Numbers that are written as JSON at once."""

type Take = Callable[[int], None]
"""Asks the account for so many bytes, or raises ServerError (AOTC-E766)."""


def take_nothing(size: int) -> None:
    """Ask no account."""


def datatype_of(dtype: DType) -> str:
    """Return the protocol's name; for types that it has none for, the manifest's in capitals."""
    return _FLOATS.get(dtype, dtype.value.upper())


class Port(Struct, frozen=True):
    """An input or output tensor of an entry point; its shape has -1 where a dimension varies.

    `within` has the least and greatest value of types narrower than the byte that holds one.
    """

    name: str
    datatype: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    within: tuple[int, int] | None = None


BYTES_WITHIN = {DType.BOOL: (0, 1), DType.INT4: (-8, 7), DType.UINT4: (0, 15)}
"""`within` of these types."""


def from_bytes(
    port: Port, shape: Sequence[int], data: memoryview | bytes, take: Take = take_nothing
) -> Array:
    """Return the tensor of little-endian bytes, as a view if they are aligned.

    Raises ServerError: AOTC-E761, E766.
    """
    count, dtype = prod(shape), port.dtype
    if len(data) != count * dtype.itemsize:
        raise invalid_request(
            f"input {port.name}",
            f"{len(data)} bytes",
            f"{count * dtype.itemsize} bytes for {port.datatype}{list(shape)}",
        )
    if not count:
        return _reshape(np.empty(0, dtype), shape, port)
    array: Array = np.frombuffer(data, dtype)
    if not array.flags.aligned:
        take(array.nbytes)
        array = array.copy()
    allowed = port.within
    if allowed is not None:
        plain = array.view(np.int8)
        if plain.min() < allowed[0] or plain.max() > allowed[1]:
            expected = f"bytes from {allowed[0]} to {allowed[1]}"
            raise invalid_request(
                f"input {port.name}", "other values", f"{expected} for {port.datatype}"
            )
    return _reshape(array, shape, port)


def from_json(
    port: Port, shape: Sequence[int], raw: bytes | Raw, take: Take = take_nothing
) -> Array:
    """Return the tensor of a JSON list, flat or nested. Raises ServerError: AOTC-E761, E766.

    `raw` is valid JSON. Its brackets and commas are compared with the shape before any value is
    read, and values are read in chunks, so that no Python list is as long as the text.
    """
    element: Any = _ELEMENTS.get(port.dtype.kind)
    if port.dtype.name in ("int4", "uint4"):
        element = int
    if element is None:
        raise invalid_request(f"input {port.name}", "JSON", f"{port.datatype} as binary data")
    text, count = memoryview(raw).tobytes(), prod(shape)
    if _is_nested(port, shape, text):
        text = text.translate(None, b"[]")
    text = text.strip(b"[] \t\r\n")
    take(count * port.dtype.itemsize)
    array: Array = np.empty(count, port.dtype)
    read = msgspec.json.Decoder(list[element])
    end = 0
    try:
        for piece in _pieces(text) if count else (text.translate(None, b", \t\r\n"),):
            values = read.decode(b"[%b]" % piece)
            start, end = end, end + len(values)
            if end > count:
                break
            array[start:end] = from_values(port, [len(values)], values)
    except (msgspec.MsgspecError, RecursionError) as error:
        kind = f"a list of {port.datatype} values"
        raise invalid_request(f"input {port.name}", str(error), kind) from None
    if end != count:
        raise invalid_request(f"input {port.name}", f"{end} values", f"{count} for its shape")
    return _reshape(array, shape, port)


def _is_nested(port: Port, shape: Sequence[int], text: bytes) -> bool:
    """Return whether lists are nested as the shape is.

    Raises ServerError (AOTC-E761) if they are neither flat nor so, or have another number of
    values.
    """
    where, count = f"input {port.name}", prod(shape)
    lists, commas = text.count(b"["), text.count(b",")
    if lists == 1 and text[:1] == b"[":
        if commas != max(count - 1, 0):
            expected = f"{count} values for {port.datatype}{list(shape)}"
            raise invalid_request(where, f"{commas + 1} values", expected)
        return False
    expected = f"a list of {count} values, flat or nested as {list(shape)}"
    rows = [prod(shape[:axis]) for axis in range(len(shape))]
    between = [number * max(size - 1, 0) for number, size in zip(rows, shape, strict=True)]
    if (lists, commas) != (sum(rows), sum(between)):
        raise invalid_request(where, f"{lists} lists with {commas} commas", expected)
    nest = b""
    for axis, size in enumerate(reversed(shape)):
        nest = b"[%b]" % b",".join([nest] * size) if axis else b"[%b]" % (b"," * (size - 1))
    if text.translate(None, _NO_NEST) != nest:
        raise invalid_request(where, "lists nested in another way", expected)
    return True


_NO_NEST = bytes(set(range(256)) - set(b"[],"))
"""Bytes of JSON that say nothing about how its lists are nested."""


def _pieces(text: bytes) -> Iterator[bytes]:
    """Yield the text, cut at commas."""
    start = 0
    while start < len(text):
        end = text.find(b",", start + PIECE_BYTES)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


_ELEMENTS = {"b": bool, "i": int, "u": int, "f": float, "V": float}


def from_values(port: Port, shape: Sequence[int], values: Sequence[Any]) -> Array:
    """Return the tensor of numbers, or of lists of them. Raises ServerError (AOTC-E761)."""
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
        raise invalid_request(where, str(error), f"values of {port.datatype}") from None
    is_flat = array.ndim == 1 and array.size == prod(shape)
    if array.shape != tuple(shape) and not is_flat:
        expected = f"{prod(shape)} values for {port.datatype}{list(shape)}"
        raise invalid_request(where, f"{array.size} as {list(array.shape)}", expected)
    if lost.any():
        raise invalid_request(where, "a number beyond its range", f"values of {port.datatype}")
    return _reshape(array, shape, port)


def _reshape(array: Array, shape: Sequence[int], port: Port) -> Array:
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:
        raise invalid_request(
            f"input {port.name}", str(error), f"a shape for {port.datatype}"
        ) from None


def to_bytes(array: Array) -> memoryview:
    """Return the elements as little-endian bytes, without a copy where they lie so."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data if flat.size else memoryview(b"")


def to_json(port: Port, array: Array) -> bytes:
    """Return the elements as one flat JSON list. Raises ServerError (AOTC-E769)."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "c":
        raise invalid_request(
            f"output {port.name}", port.datatype, "a datatype of JSON", binary=True
        )
    if flat.dtype.kind == "V":
        flat = flat.astype(np.int8 if "int" in flat.dtype.name else np.float64)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise refusal("AOTC-E769", f"output {port.name}", "NaN or an infinity")
    pieces = [
        msgspec.json.encode(flat[start : start + PIECE_VALUES].tolist())[1:-1]
        for start in range(0, flat.size, PIECE_VALUES)
    ]
    return b"[%b]" % b",".join(pieces)


def invalid_request(where: str, found: str, expected: str, *, binary: bool = False) -> AotcError:
    """Return the error (AOTC-E761) for a request that the protocol or the model does not allow."""
    hint = 'set "parameters": {"binary_data_output": true} in the request' if binary else None
    return refusal("AOTC-E761", where, found, expected=expected, hint=hint)
