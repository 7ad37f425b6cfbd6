"""The protobuf messages inside of a serialized executable, from XLA:CPU or from a plugin.

XLA:CPU writes one. Plugins write Riegeli files of a proto that is split over records, some of which
are such files again: https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md
and openxla/xla xla/util/split_proto. Read here are simple chunks as XLA writes them, plain or with
Snappy; hashes are not looked at, since the bundle's digests cover all of it.
"""

import struct
from collections.abc import Iterator

from aotc_runtime.formats.protobuf_wire import read_varint

SIGNATURE = bytes.fromhex("83af70d10d884a3f" + "0" * 16 + "40" + "0" * 14)
"""The header of the first block: the hash of the rest, how far its chunk goes back, and forth."""

_BLOCK_BYTES, _BLOCK_HEADER_BYTES = 1 << 16, 24
_CHUNK = struct.Struct("<QQQQQ")
"""Hash of the header, bytes of data, their hash, type and number of records, decoded bytes."""

_SIMPLE, _SIGNED, _PADDING = b"r", b"s", b"p"
_PLAIN, _SNAPPY = 0, ord("s")

_DEPTH_MAX = 4
_SNAPPY_RATIO_MAX = 32
"""In Snappy, three bytes copy 64 at most; so no executable becomes more, in all of its files."""


def messages(serialized: bytes) -> Iterator[bytes]:
    """Yield the messages in their order.

    Raises ValueError for bytes of another layout. What is compressed needs cramjam.
    """
    length, start = read_varint(serialized, 0, len(serialized))  # in front stands IFRT's header
    yield from _messages(
        serialized[start + length :], _DEPTH_MAX, _DecompressionBudget(len(serialized))
    )


class _DecompressionBudget:
    """The bytes that may still be decompressed from so many: files lie in files."""

    def __init__(self, size: int) -> None:
        self._left = _SNAPPY_RATIO_MAX * size

    def take(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise ValueError("many times as many bytes within")


def _messages(data: bytes, depth: int, budget: _DecompressionBudget) -> Iterator[bytes]:
    if not data.startswith(SIGNATURE):
        yield data
    elif depth:
        for record in _records(data, budget):
            yield from _messages(record, depth - 1, budget)


def _records(data: bytes, budget: _DecompressionBudget) -> Iterator[bytes]:
    blocks = range(0, len(data), _BLOCK_BYTES)
    joined = b"".join(data[at + _BLOCK_HEADER_BYTES : at + _BLOCK_BYTES] for at in blocks)
    at = 0
    while at < len(joined):
        if len(joined) - at < _CHUNK.size:
            raise ValueError("a chunk that is cut short")
        _, size, _, kind, _ = _CHUNK.unpack_from(joined, at)
        at += _CHUNK.size
        if size > len(joined) - at:
            raise ValueError("a chunk beyond the end")
        chunk, at = joined[at : at + size], at + size
        letter, count = bytes([kind & 0xFF]), kind >> 8
        if letter == _SIMPLE:
            yield from _simple(chunk, count, budget)
        elif letter not in (_SIGNED, _PADDING):
            raise ValueError(f"a chunk of type {letter!r}")


def _simple(chunk: bytes, count: int, budget: _DecompressionBudget) -> Iterator[bytes]:
    """Yield a chunk's records: how it is compressed, bytes of sizes, sizes, values."""
    if not chunk:
        raise ValueError("an empty chunk")
    length, at = read_varint(chunk, 1, len(chunk))
    sizes = _decompress(chunk[0], chunk[at : at + length], budget)
    values = _decompress(chunk[0], chunk[at + length :], budget)
    at = begin = 0
    for _ in range(count):
        size, at = read_varint(sizes, at, len(sizes))
        if size > len(values) - begin:
            raise ValueError("a record beyond the end")
        yield values[begin : begin + size]
        begin += size


def _decompress(how: int, data: bytes, budget: _DecompressionBudget) -> bytes:
    if how == _PLAIN:
        return data
    if how != _SNAPPY:
        raise ValueError(f"compression {how}")
    # Riegeli states the size, and so does Snappy itself.
    size, at = read_varint(data, 0, len(data))
    again, _ = read_varint(data, at, len(data))
    if size != again:
        raise ValueError(f"{len(data)} bytes that become {again}, or {size}")
    budget.take(size)
    import cramjam  # which only targets for CUDA bring

    try:
        return bytes(cramjam.snappy.decompress_raw(data[at:]))
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error
