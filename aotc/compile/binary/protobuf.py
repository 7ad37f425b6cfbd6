"""The protobuf wire format, enough to take messages of unknown schema apart and together.

https://protobuf.dev/programming-guides/encoding/. XLA publishes no schema of its executables for a
given jaxlib, so fields are found by what they hold.
"""

from __future__ import annotations

from dataclasses import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message. value: the integer for a varint, the raw bytes otherwise."""

    number: int
    wire: int
    value: int | bytes


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and the position behind it. Raises ValueError."""
    result = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return result, at
    raise ValueError("not a varint")


def write_varint(value: int) -> bytes:
    """The shortest spelling of a non-negative integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse(data: bytes) -> list[Field]:
    """The fields of a message, in order. Raises ValueError if the bytes are no message."""
    fields = []
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if number == 0:
            raise ValueError("field number 0")
        if wire == VARINT:
            value, at = read_varint(data, at)
        elif wire == BYTES or wire in _FIXED:
            length, at = read_varint(data, at) if wire == BYTES else (_FIXED[wire], at)
            value = data[at : at + length]
            at += length
            if at > len(data):
                raise ValueError("field beyond the end")
        else:
            raise ValueError(f"wire type {wire}")
        fields.append(Field(number, wire, value))
    return fields


def serialize(fields: list[Field]) -> bytes:
    """The message with these fields, in this order."""
    out = bytearray()
    for field in fields:
        out += write_varint(field.number << 3 | field.wire)
        if isinstance(field.value, int):
            out += write_varint(field.value)
        else:
            if field.wire == BYTES:
                out += write_varint(len(field.value))
            out += field.value
    return bytes(out)


def message(field: Field) -> list[Field] | None:
    """The fields of a nested message, or None if the field does not hold one."""
    if field.wire != BYTES or isinstance(field.value, int):
        return None
    try:
        return parse(field.value)
    except ValueError:
        return None
