"""Reads what processes and builds leave for each other in MessagePack."""

from __future__ import annotations

import msgspec

from aotc_runtime.base import canonical_json


def unpacked[T](data: bytes, type_: type[T]) -> T:
    """The value of a type that MessagePack holds, in any thread. Raises ValueError and
    RecursionError for bytes that hold none.
    """
    canonical_json.decoder(type_)  # describes it to msgspec, which only one thread at a time may do
    return msgspec.msgpack.decode(data, type=type_)
