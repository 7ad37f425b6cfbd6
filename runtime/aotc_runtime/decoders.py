"""msgspec's JSON decoders, one per type, made one at a time.

msgspec describes a struct to itself when the struct is first decoded, and two threads that do so at
once end the process with a segmentation fault (seen with 0.22.0).
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec

_lock = threading.Lock()
_made: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder[T](type_: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type; afterwards `msgspec.convert` to it is safe as well."""
    with _lock:
        if type_ not in _made:
            _made[type_] = msgspec.json.Decoder(type_)
        return _made[type_]
