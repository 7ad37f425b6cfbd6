"""Digests as the OCI image specification writes them: `sha256:` and 64 lower-case hex digits."""

from __future__ import annotations

import re

from cryptography.hazmat.primitives import hashes

_SHA256 = hashes.SHA256()

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


def is_digest(text: str) -> bool:
    """Whether the text is a well-formed sha256 digest; no other algorithm is accepted."""
    return PATTERN.match(text) is not None
