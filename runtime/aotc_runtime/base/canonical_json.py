"""The doors for JSON, and for TOML.

`decode` is that of our own documents: one value has one spelling (RFC 8785). They hold no floats
and only ASCII keys, for which msgspec's sorted encoding is exactly RFC 8785. Decoding re-encodes
and compares, so that duplicate keys, white space, other escapes or another key order are refused
rather than interpreted.

`decode_foreign` is that of what other tools write or rewrite, which are index.json, attestations'
manifests, envelopes and statements: any spelling, unknown fields where the type allows them, but no
key twice, since readers differ in which of the two they take.

`decode_toml` is that of policies and build manifests.
"""

import re
import threading
from typing import Any

import msgspec

from aotc_runtime.base import limits
from aotc_runtime.base.errors import refusal

_lock = threading.Lock()
_made: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder[T](type_: type[T]) -> msgspec.json.Decoder[T]:
    """Return the JSON decoder of a type; afterwards `msgspec.convert` to it is safe as well.

    msgspec describes a struct to itself when the struct is first decoded, and two threads that do
    so at once end the process with a segmentation fault (seen with 0.22.0).
    """
    with _lock:
        if type_ not in _made:
            _made[type_] = msgspec.json.Decoder(type_)
        return _made[type_]


def encode(value: Any) -> bytes:
    """Return the canonical JSON bytes of a value."""
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
        raise refusal("AOTC-E102", where, "")
    return value


_MARKS = (b",", b":", b"[", b"{")


def check_keys(data: bytes) -> None:
    """Raise ValueError unless each key is unique in its object; the data is valid JSON already.

    Decoders keep one of two equal keys, so that what they read, written again, has fewer keys.
    """
    if _keys(data) != _keys(msgspec.json.encode(msgspec.json.decode(data))):
        raise ValueError("a key stands twice in an object")


def _keys(data: bytes) -> int:
    """Return the number of keys of a JSON text: colons outside of strings."""
    if b"\\" in data:  # so that every quote that is left begins or ends a string
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2]).count(b":")


def marks_in(data: bytes) -> int:
    """Count commas, colons and opening brackets, in strings or not.

    JSON text holds at most one more value than this count.
    """
    return sum(map(data.count, _MARKS))


def check_marks(data: bytes, most: int, where: str) -> None:
    """AOTC-E111: more values than any real document has. Asked before any is made."""
    marks = marks_in(data)
    if marks > most:
        found, cause = f"{marks} JSON delimiters", "too-many-entries-in-a-document"
        raise refusal("AOTC-E111", where, found, cause=cause, expected=f"at most {most}")


def decode_foreign[T](
    data: bytes | memoryview, type_: type[T], *, where: str, marks: int = limits.STATEMENT_MARKS_MAX
) -> T:
    """Read JSON in any spelling, with at most `marks` commas, colons and opening brackets.

    Raises BundleFormatError (AOTC-E106, AOTC-E111).
    """
    copy = bytes(data)
    check_marks(copy, marks, where)
    try:
        value = decoder(type_).decode(copy)
        check_keys(copy)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refusal("AOTC-E106", where, str(error), type=type_.__name__) from error
    return value


_DIGITS_MAX = 5000
"""Longer than any number is; tomllib takes 150 bytes for each digit."""

_TOML_MARKS = "\n", ".", ",", "=", "[", "{"


def decode_toml(text: str) -> dict[str, Any]:
    """Parse TOML, whose parts are counted first: tomllib takes the square of some.

    Raises ValueError for what is none or has more parts than any real file, and RecursionError.
    """
    import tomllib  # not needed where a policy is passed as an object

    if sum(map(text.count, _TOML_MARKS)) > limits.TOML_MARKS_MAX:
        raise ValueError(f"more than {limits.TOML_MARKS_MAX} lines, keys and values")
    lines = text.split("\n")
    if any(line.count(".") > limits.TOML_DOTS_MAX for line in lines):
        raise ValueError(f"a line with more than {limits.TOML_DOTS_MAX} dots")
    # Python takes 0.3 ms to compile the pattern, which few files have lines for.
    is_long = any(len(line) >= _DIGITS_MAX for line in lines)
    if is_long and re.search(rf"[0-9A-Fa-f_]{{{_DIGITS_MAX}}}", text):
        raise ValueError(f"a number of {_DIGITS_MAX} digits or more")
    return tomllib.loads(text)
