"""`--profile batch=8,seq=16`: the sizes of a profile, as commands take them."""

from __future__ import annotations

from aotc.report.arrays import usage

NO_SIZES = "-"
"""In place of sizes, where an entry point has none."""


def parse_profile(text: str) -> dict[str, int]:
    """`batch=8,seq=16` as sizes by name. Raises UsageError (AOTC-E014)."""
    if text.strip() == NO_SIZES:
        raise usage(
            "AOTC-E014",
            f"--profile {text}",
            "NAME=SIZE, with a comma between several",
            f"{NO_SIZES}, as a profile without sizes is shown",
            "leave --profile out: an entry point without sizes has that profile alone",
        )
    sizes = {}
    for part in text.split(","):
        name, _, size = part.strip().partition("=")
        if not name or not (size.isascii() and size.isdecimal()) or name in sizes:
            raise usage(
                "AOTC-E014",
                f"--profile {text}",
                "NAME=SIZE, with a comma between several",
                repr(part),
                "write it as `aotc inspect` shows it: batch=8",
            )
        sizes[name] = int(size)
    return sizes
