"""The door for TOML that somebody else may have written: bounded before it is parsed."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from aotc_runtime import limits

_NUMBER = re.compile(r"[0-9A-Fa-f_]{5000}")
"""Longer than any number is; tomllib takes 150 bytes for each digit."""

_MARKS = "\n", ".", ",", "=", "[", "{"


def loads(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises ValueError for what is none or has more parts than any real file, and RecursionError.
    """
    if sum(map(text.count, _MARKS)) > limits.TOML_MARKS_MAX:
        raise ValueError(f"more than {limits.TOML_MARKS_MAX} lines, keys and values")
    if any(line.count(".") > limits.TOML_DOTS_MAX for line in text.split("\n")):
        raise ValueError(f"a line with more than {limits.TOML_DOTS_MAX} dots")
    if _NUMBER.search(text):
        raise ValueError("a number of more than 5000 digits")
    return tomllib.loads(text)
