"""The protobuf wire format: one walker for every reader of messages.

https://protobuf.dev/programming-guides/encoding/. protobuf itself makes an object of a hundred
bytes of two bytes; the walker makes none, and follows no length beyond the end of a message.
"""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}


class WireError(ValueError):
    """The bytes are not a protobuf message."""


def read_varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned 64-bit integer and the position behind it. Raises WireError."""
    value = shift = 0
    while at < end:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise WireError(f"byte {at}: a number of more than 64 bits")
    raise WireError(f"byte {at}: the message ends within a number")


def write_varint(value: int) -> bytes:
    """Encode a non-negative integer in its shortest form."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_field(data: bytes | memoryview, at: int, end: int) -> tuple[int, int, int, int]:
    """Read the field at a position of a message that ends at `end`.

    Returns its number, its wire type, its value and the position behind it. The value of a VARINT
    is the integer; of all others it is the position where the bytes of the field begin.

    Raises WireError for a length beyond the end, an unknown wire type and the number 0.
    """
    key, at = read_varint(data, at, end)
    number, kind = key >> 3, key & 7
    if number == 0:
        raise WireError(f"byte {at}: field number 0")
    if kind == VARINT:
        return number, kind, *read_varint(data, at, end)
    if kind == BYTES:
        size, at = read_varint(data, at, end)
    elif kind in _FIXED:
        size = _FIXED[kind]
    else:
        raise WireError(f"byte {at}: field {number} has the unknown wire type {kind}")
    if at + size > end:
        raise WireError(f"byte {at}: {size} bytes are announced, {end - at} are left")
    return number, kind, at, at + size
