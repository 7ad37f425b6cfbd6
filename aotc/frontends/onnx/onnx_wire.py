"""Walks over the bytes of a protobuf message before anything parses them.

A parser makes of two bytes an object of a hundred, and believes every length. The walk is over
fields, takes no memory, and stops at a limit.
"""

from __future__ import annotations

from typing import Any

FIELDS = 4_000_000
"""The most fields that a file may have. A model has about ten for each node and tensor."""

DEPTH = 100
"""The most messages within each other; what protobuf itself accepts."""


class DamagedError(ValueError):
    """The bytes are not a message of the expected type."""


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise DamagedError(f"byte {at}: a number of more than 64 bits")
    raise DamagedError(f"byte {at}: the file ends, or a message does, within a number")


def _require_text(data: bytes, at: int, length: int) -> None:
    try:
        data[at : at + length].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedError(f"byte {at}: a text that is not UTF-8") from error


def walk(data: bytes, descriptor: Any) -> None:
    """Follow every length in the bytes of a message; descriptor: of its type, from protobuf.

    Raises DamagedError for a length beyond the end, an unknown kind of field, a message nested too
    deeply, more fields than a model has, and texts that are not UTF-8.
    """
    kinds: dict[str, dict[int, Any]] = {}

    def messages_of(of: Any) -> dict[int, Any]:
        """Fields by number: the type of a message, None for a text; others are not in it."""
        found = kinds.get(of.full_name)
        if found is None:
            found = kinds[of.full_name] = {
                field.number: field.message_type
                for field in of.fields
                if field.message_type or field.type == field.TYPE_STRING
            }
        return found

    stack = [(messages_of(descriptor), len(data))]
    at = count = 0
    while stack:
        messages, end = stack[-1]
        if at == end:
            stack.pop()
            continue
        count += 1
        if count > FIELDS:
            raise DamagedError(f"more than {FIELDS:,} fields")
        tag, at = _varint(data, at, end)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(data, at, end)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            length, at = _varint(data, at, end)
            number = tag >> 3
            below = messages.get(number)
            if at + length > end:
                raise DamagedError(f"byte {at}: {length} bytes are announced, {end - at} are left")
            if below is None:
                if number in messages:
                    _require_text(data, at, length)
                at += length
            elif len(stack) == DEPTH:
                raise DamagedError(f"byte {at}: messages nested more than {DEPTH} deep")
            else:
                stack.append((messages_of(below), at + length))
        else:
            raise DamagedError(f"byte {at}: field {tag >> 3} has the unknown kind {kind}")
        if at > end:
            raise DamagedError(f"byte {end}: the file ends, or a message does, within a field")
