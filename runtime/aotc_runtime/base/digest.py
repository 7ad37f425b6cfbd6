"""Digests as the OCI image specification writes them: `sha256:` and 64 lower-case hex digits."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from aotc_runtime.base.parallel_calls import ParallelCalls

PARALLEL_BYTES_MIN = 8 * 2**20
"""Below this, threads cost more than hashing takes."""

PATTERN = re.compile(r"\Asha256:[0-9a-f]{64}\Z")


def sha256(data: bytes | bytearray | memoryview) -> str:
    """Return the digest of the bytes, in OCI's spelling.

    By cryptography, which verification loads anyway; hashlib would bring a second OpenSSL into the
    process. Other threads run meanwhile.
    """
    return "sha256:" + sha256_bytes(data).hex()


def sha256_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """Return the 32 bytes of SHA-256 (FIPS 180-4)."""
    return _sha256_of(chunks_of(data))


def sha256_of(data: Iterable[bytes | bytearray | memoryview]) -> str:
    """Return the digest of chunks that follow each other, of which none is kept."""
    return "sha256:" + _sha256_of(data).hex()


def _sha256_of(data: Iterable[bytes | bytearray | memoryview]) -> bytes:
    # Imported while XLA's library is loaded, which opening a bundle begins.
    from cryptography.hazmat.primitives import hashes

    state = hashes.Hash(hashes.SHA256())
    for chunk in data:
        state.update(chunk)
    return state.finalize()


def chunks_of(data: bytes | bytearray | memoryview) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the bytes in one chunk, or in many chunks for a streamed map.

    Bytes of a map of `aotc_runtime.system.streamed_bundle` are read from its file.
    """
    passed: Any = getattr(getattr(data, "obj", None), "chunks", None)
    return passed(data) if passed else iter((data,))


def copy_of(data: bytes | bytearray | memoryview) -> bytes:
    """Return a copy that nothing can change, read as by `chunks_of`."""
    return b"".join(chunks_of(data))


def begin_hashing(data: Sequence[memoryview], threads: int) -> ParallelCalls[memoryview, str]:
    """Begin the digests of all data, in threads of their own, the largest first.

    Pages of a mapped file are read as the hashing reaches them, so reading one blob overlaps with
    hashing another. Little data waits for `finish`: threads would cost more than hashing takes.
    """
    sizes = [len(view) for view in data]
    if sum(sizes) < PARALLEL_BYTES_MIN:
        threads = 0
    order = sorted(range(len(data)), key=lambda index: sizes[index])
    return ParallelCalls(sha256, data, threads, order)


def cores() -> int:
    """Return the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def sha256_each(data: Sequence[memoryview]) -> list[str]:
    """Return the digest of each, in the order given, on every core of this process."""
    digests = begin_hashing(data, min(cores(), len(data)) - 1).finish()
    return [digests[index] for index in range(len(data))]


def is_digest(text: str) -> bool:
    """Return whether a text is a well-formed sha256 digest; there is no other algorithm."""
    return PATTERN.match(text) is not None
