"""JSON that other tools write or rewrite: any spelling, unknown fields allowed by the type, but no
key twice.

The second door beside `aotc_runtime.canonical`: index.json, attestations' manifests, envelopes,
statements and safetensors headers come in here. A repeated key is refused because readers differ in
which of the two they take.
"""

from __future__ import annotations

import msgspec

from aotc_runtime import limits
from aotc_runtime.canonical import decoder
from aotc_runtime.errors import refusal

_MARKS = (b",", b":", b"[", b"{")


def check_keys(data: bytes) -> None:
    """Raise ValueError unless each key is unique in its object; the data is valid JSON already.

    Decoders keep one of two equal keys, so that what they read, written again, has fewer keys.
    """
    if _keys(data) != _keys(msgspec.json.encode(msgspec.json.decode(data))):
        raise ValueError("a key stands twice in an object")


def _keys(data: bytes) -> int:
    """How many keys a JSON text has: colons outside of strings."""
    if b"\\" in data:  # so that every quote that is left begins or ends a string
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return sum(part.count(b":") for part in data.split(b'"')[::2])


def marks_in(data: bytes) -> int:
    """How many commas, colons and opening brackets a text has, in strings or not: JSON holds no
    more values than one more than that.
    """
    return sum(map(data.count, _MARKS))


def _check_marks(data: bytes, most: int, where: str) -> None:
    """AOTC-E111: more values than any real document has. Asked before any is made."""
    marks = marks_in(data)
    if marks > most:
        raise refusal(
            "AOTC-E111",
            where,
            str(marks),
            expected=f"JSON with at most {most} commas, colons and opening brackets",
            hint="no tool writes so many values: fetch or build the bundle again",
        )


def decode_foreign[T](
    data: bytes | memoryview, type_: type[T], *, where: str, marks: int = limits.STATEMENT_MARKS_MAX
) -> T:
    """Read JSON in any spelling. marks: how many commas, colons and opening brackets it may have.

    Raises BundleFormatError (AOTC-E106, AOTC-E111).
    """
    copy = bytes(data)
    _check_marks(copy, marks, where)
    try:
        value = decoder(type_).decode(copy)
        check_keys(copy)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refusal("AOTC-E106", where, str(error), type=type_.__name__) from error
    return value
