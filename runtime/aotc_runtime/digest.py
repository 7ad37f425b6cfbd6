"""Digests as the OCI image specification writes them: `sha256:` and 64 lower-case hex digits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Buffer

PATTERN = re.compile(r"\Asha256:[0-9a-f]{64}\Z")


def sha256(data: Buffer) -> str:
    """The digest of the bytes, in OCI's spelling."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def is_digest(text: str) -> bool:
    """Whether the text is a well-formed sha256 digest; no other algorithm is accepted."""
    return PATTERN.match(text) is not None
