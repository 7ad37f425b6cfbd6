"""Decodes MessagePack values that processes and builds exchange."""

import msgspec

from aotc_runtime.base import canonical_json


def unpacked[T](data: bytes, type_: type[T]) -> T:
    """Decode a value from MessagePack in any thread, or raise ValueError or RecursionError."""
    canonical_json.decoder(type_)  # describes it to msgspec, which only one thread at a time may do
    return msgspec.msgpack.decode(data, type=type_)
