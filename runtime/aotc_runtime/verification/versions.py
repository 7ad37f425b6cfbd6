"""Comparing bundle versions: numbers by value, and a pre-release before its release."""

from __future__ import annotations

import re

_VERSION = re.compile(r"\A(\d+(?:\.\d+){0,3})(?:[-+.]?([A-Za-z][A-Za-z0-9.+-]*))?\Z")

Key = tuple[tuple[int, ...], int, str]


def version_key(text: str) -> Key | None:
    """A sort key, or None if the text is no version. "1.0" equals "1.0.0"; "1.0.0-rc1" is less."""
    match = _VERSION.match(text)
    if not match:
        return None
    numbers = tuple(int(part) for part in match[1].split("."))
    padded = numbers + (0,) * (4 - len(numbers))
    return padded, 0 if match[2] else 1, match[2] or ""
