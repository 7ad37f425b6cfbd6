"""JSON that other tools write or rewrite: any spelling, unknown fields allowed by the type, but no
key twice.

The second door beside `aotc_runtime.canonical`: index.json, attestations' manifests, envelopes,
statements and safetensors headers come in here. A repeated key is refused because readers differ in
which of the two they take.
"""

from __future__ import annotations

from typing import Any

import msgspec

from aotc_runtime.errors import BundleFormatError, Finding


def check_keys(data: bytes) -> None:
    """Raise ValueError (which JSONDecodeError is) or RecursionError unless each key is unique."""
    # Imported here: msgspec reads everything else, and only the standard library tells of
    # duplicate keys.
    import json

    json.loads(data, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in an object")


def decode_foreign[T](data: bytes | memoryview, type_: type[T], *, where: str) -> T:
    """Read JSON in any spelling. Raises BundleFormatError (AOTC-E106)."""
    try:
        copy = bytes(data)
        value = msgspec.json.decode(copy, type=type_)
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
