"""`--profile batch=8,seq=16`: the sizes of a profile, as commands take them."""

from __future__ import annotations

from aotc.base.errors import refusal

NO_SIZES = "-"
"""In place of sizes, where an entry point has none."""


def parse_profile(text: str) -> dict[str, int]:
    """`batch=8,seq=16` as sizes by name. Raises UsageError (AOTC-E014)."""
    if text.strip() == NO_SIZES:
        raise refusal(
            "AOTC-E014",
            f"--profile {text}",
            f"{NO_SIZES}, as a profile without sizes is shown",
            expected="NAME=SIZE, with a comma between several",
            hint="leave --profile out: an entry point without sizes has that profile alone",
        )
    sizes = {}
    for part in text.split(","):
        name, _, size = part.strip().partition("=")
        if not name or not (size.isascii() and size.isdecimal()) or name in sizes:
            raise refusal(
                "AOTC-E014",
                f"--profile {text}",
                repr(part),
                expected="NAME=SIZE, with a comma between several",
                hint="write it as `aotc inspect` shows it: batch=8",
            )
        sizes[name] = int(size)
    return sizes
