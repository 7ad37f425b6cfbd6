"""Digests as the OCI image specification writes them: `sha256:` and 64 lower-case hex digits."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence

from cryptography.hazmat.primitives import hashes

_SHA256 = hashes.SHA256()

PARALLEL_BYTES_MIN = 8 * 2**20
"""Below this, threads cost more than hashing takes."""

PATTERN = re.compile(r"\Asha256:[0-9a-f]{64}\Z")


def sha256(data: bytes | bytearray | memoryview) -> str:
    """The digest of the bytes, in OCI's spelling.

    By cryptography, which verification loads anyway; hashlib would bring a second OpenSSL into the
    process. Other threads run meanwhile.
    """
    return "sha256:" + sha256_bytes(data).hex()


def sha256_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """The 32 bytes of SHA-256 (FIPS 180-4)."""
    state = hashes.Hash(_SHA256)
    state.update(data)
    return state.finalize()


def sha256_each(data: Sequence[memoryview]) -> list[str]:
    """The digest of each, in the order given: on every core of this process, the largest first.

    Pages of a mapped file are read as the hashing reaches them, so reading one blob overlaps with
    hashing another.
    """
    sizes = [len(view) for view in data]
    # Taken from the end; a list's pop is atomic.
    waiting = sorted(range(len(data)), key=lambda index: sizes[index])
    # No digest looks like this: what a thread could not hash matches nothing.
    digests = [""] * len(data)

    def work() -> None:
        while True:
            try:
                index = waiting.pop()
            except IndexError:
                return
            digests[index] = sha256(data[index])

    helpers = []
    if sum(sizes) >= PARALLEL_BYTES_MIN:
        for _ in range(min(len(os.sched_getaffinity(0)), len(data)) - 1):
            helper = threading.Thread(target=work, name="aotc-hash", daemon=True)
            try:
                helper.start()
            except RuntimeError:  # the process may have no more threads: those it has will do
                break
            helpers.append(helper)
    work()
    for helper in helpers:
        helper.join()
    return digests


def is_digest(text: str) -> bool:
    """Whether the text is a well-formed sha256 digest; no other algorithm is accepted."""
    return PATTERN.match(text) is not None
