"""The only door for our own JSON: one value has one spelling (RFC 8785).

Own documents hold no floats and only ASCII keys, for which msgspec's sorted encoding is exactly
RFC 8785. Decoding re-encodes and compares, so that duplicate keys, white space, other escapes or
another key order are refused rather than interpreted.
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from aotc_runtime.errors import refusal

_lock = threading.Lock()
_made: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder[T](type_: type[T]) -> msgspec.json.Decoder[T]:
    """The JSON decoder of a type; afterwards `msgspec.convert` to it is safe as well.

    msgspec describes a struct to itself when the struct is first decoded, and two threads that do
    so at once end the process with a segmentation fault (seen with 0.22.0).
    """
    with _lock:
        if type_ not in _made:
            _made[type_] = msgspec.json.Decoder(type_)
        return _made[type_]


def encode(value: Any) -> bytes:
    """The canonical JSON bytes of a value."""
    return msgspec.json.encode(value, order="sorted")


def decode[T](data: bytes | memoryview, type_: type[T], *, where: str) -> T:
    """Read canonical JSON into a type. Raises BundleFormatError (AOTC-E101, AOTC-E102)."""
    try:
        value = decoder(type_).decode(data)
        again = encode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise refusal(
            "AOTC-E101", where, str(error), expected=f"JSON that is a valid {type_.__name__}"
        ) from error
    if again != data:
        raise refusal("AOTC-E102", where, "another spelling of the same value")
    return value
