"""Checks the bytes of an ONNX file before protobuf parses them, in a walk that takes no memory."""

from typing import Any

from aotc_runtime.formats.protobuf_wire import BYTES, WireError, read_field

FIELDS = 4_000_000
"""The most fields that a file may have. A model has about ten for each node and tensor."""

DEPTH = 100
"""The most messages within each other; what protobuf itself accepts."""


def _require_text(data: bytes, start: int, end: int) -> None:
    try:
        data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"byte {start}: text in another encoding than UTF-8") from error


def walk(data: bytes, descriptor: Any) -> None:
    """Follow every length in the bytes of a message; descriptor: of its type, from protobuf.

    Raises WireError for a length beyond the end, an unknown kind of field, a message nested too
    deeply, more fields than a model has, and texts that are not UTF-8.
    """
    kinds: dict[str, dict[int, Any]] = {}

    def messages_of(of: Any) -> dict[int, Any]:
        """Return fields by number: the type of a message, None for a text; others are not in it."""
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
            raise WireError(f"more than {FIELDS:,} fields")
        number, kind, start, at = read_field(data, at, end)
        if kind != BYTES or number not in messages:
            continue
        below = messages[number]
        if below is None:
            _require_text(data, start, at)
        elif len(stack) == DEPTH:
            raise WireError(f"byte {start}: messages nested more than {DEPTH} deep")
        else:
            stack.append((messages_of(below), at))
            at = start
