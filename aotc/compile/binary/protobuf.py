"""Take protobuf messages of unknown schema apart and put them together.

XLA publishes no schema of a jaxlib's executables, so fields are found by their contents.
"""

from dataclasses import dataclass

from aotc_runtime.formats.protobuf_wire import BYTES, VARINT, read_field, write_varint


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: an integer for a varint, the raw bytes otherwise."""

    number: int
    wire: int
    value: int | bytes


def parse(data: bytes) -> list[Field]:
    """Return the fields of a message, in order. Raises ValueError if the bytes are no message."""
    fields = []
    at = 0
    while at < len(data):
        number, wire, value, at = read_field(data, at, len(data))
        fields.append(Field(number, wire, value if wire == VARINT else data[value:at]))
    return fields


def serialize(fields: list[Field]) -> bytes:
    """Return the message with these fields, in this order."""
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
    """Return the fields of a nested message, or None if the field does not hold one."""
    if field.wire != BYTES or isinstance(field.value, int):
        return None
    try:
        return parse(field.value)
    except ValueError:
        return None
