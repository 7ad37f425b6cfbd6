"""The sections of a build manifest as parts of keys: which a program's results depend on.

Every key counts unless it stands in `APART` with the reason why it cannot matter: a key that is new
makes the program run again until somebody has thought about it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from aotc_runtime.base.digest import sha256

APART: Mapping[tuple[str, ...], str] = {
    ("name",): "the bundle's, which pack writes",
    ("version",): "the bundle's, which pack writes",
    ("targets",): "those that are built, in place of which --target may name others, are a part "
    "of their own",
    ("engines",): "which compilers the modules go to: all of processors take the same ones",
    ("target", "*", "engines"): "likewise",
    ("tune",): "which of the finished executables are taken",
    ("gates",): "compared with what was built, in every build",
    ("entry_points", "*", "tolerance"): "parity compares with it; so do trials in plain JAX, whose "
    "plan is a part of their key and holds it",
    ("entry_points", "*", "evaluation"): "a task of its own, whose key holds it",
    ("target", "*", "memory_limit"): "compared with what was built, in every build",
}
"""What neither the capture nor a fixture's reference depends on, with the reason; "*" is any name.
A program that opens the manifest itself depends on all of it: as on any other file that it opens.
"""

NAMED = ("weights", "dimensions", "target", "entry_points")
"""Tables by name, whose order means nothing: a part for each name."""


def program_sections(text: bytes) -> dict[str, str]:
    """Parts of a key: "build manifest entry_points.predict" to a digest of what it says.

    text: of a manifest that was read before. Comments, spaces and the order of tables by name do
    not count; the order of keys within them does.
    """
    return dict(sorted(_parts(tomllib.loads(text.decode()))))


def _parts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        if (key,) in APART:
            continue
        if key not in NAMED:
            yield f"build manifest {key}", _number_or_digest(value)
            continue
        for name, section in value.items():
            left = {k: v for k, v in section.items() if (key, "*", k) not in APART}
            if left or not section:
                yield f"build manifest {key}.{name}", _number_or_digest(left)


def _number_or_digest(value: Any) -> str:
    """An integer as it is; the digest of anything else in Python's spelling, which distinguishes
    1.0 from 1, a date from its text, and orders of keys.
    """
    return str(value) if isinstance(value, int) else sha256(repr(value).encode())
