"""JSON that other tools write or rewrite: any spelling, unknown fields allowed by the type, but no
key twice.

The second door beside `aotc_runtime.canonical`: index.json, attestations' manifests, envelopes,
statements and safetensors headers come in here. A repeated key is refused because readers differ in
which of the two they take.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from aotc_runtime.decoders import decoder
from aotc_runtime.errors import BundleFormatError, Finding

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')


def check_keys(data: bytes) -> None:
    """Raise ValueError unless each key is unique in its object; the data is valid JSON already.

    Decoders keep one of two equal keys, so that the value they give has fewer keys than the text
    has colons outside of strings.
    """
    colons = _STRING.sub(b"", data).count(b":")
    if colons != _keys(msgspec.json.decode(data)):
        raise ValueError("a key stands twice in an object")


def _keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_keys, value.values()))
    return sum(map(_keys, value)) if isinstance(value, list) else 0


def decode_foreign[T](data: bytes | memoryview, type_: type[T], *, where: str) -> T:
    """Read JSON in any spelling. Raises BundleFormatError (AOTC-E106)."""
    try:
        copy = bytes(data)
        value = decoder(type_).decode(copy)
        check_keys(copy)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BundleFormatError(
            Finding(
                code="AOTC-E106",
                where=where,
                expected=f"JSON that is a valid {type_.__name__}",
                found=str(error),
                hint="the bundle is damaged: fetch or build it again",
            )
        ) from error
    return value
