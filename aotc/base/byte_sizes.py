"""Sizes in bytes, with or without units."""

import re

from aotc_runtime.schema.pytrees import INTEGER_MAX

_BYTES = re.compile(r"\A([1-9][0-9]{0,17}) ?(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)\Z")
UNITS = {"B": 1} | {
    f"{letter}{suffix}": base ** (power + 1)
    for suffix, base, letters in (("B", 1000, "kMGT"), ("iB", 1024, "KMGT"))
    for power, letter in enumerate(letters)
}
"""The bytes of each unit."""


def bytes_of(value: object) -> int | None:
    """Return the bytes that an integer or a text such as "2 GiB" means; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 1 <= value <= INTEGER_MAX else None
    found = _BYTES.match(value) if isinstance(value, str) else None
    amount = int(found[1]) * UNITS[found[2]] if found else 0
    return amount if 1 <= amount <= INTEGER_MAX else None
