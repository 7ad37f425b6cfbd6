"""Sections of a build manifest as cache key components: those that a program's results depend on.

Every key counts unless it is in `APART` with the reason why it cannot matter, so that a new key
causes another run of the program by default.
"""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from aotc_runtime.base.digest import sha256

APART: Mapping[tuple[str, ...], str] = {
    ("name",): "the bundle's, which pack writes",
    ("version",): "the bundle's, which pack writes",
    ("targets",): "those that are built, in place of which --target may name others, are a part "
    "of their own",
    ("license",): "of the model card, which pack writes",
    ("owners",): "likewise",
    ("engines",): "which compilers the modules go to: all of processors take the same ones",
    ("target", "*", "engines"): "likewise",
    ("tune",): "which of the finished executables are taken",
    ("assets",): "files that travel with the program, which pack writes",
    ("gates",): "compared with what was built, in every build",
    ("entry_points", "*", "tolerance"): "parity compares with it; so do trials in plain JAX, whose "
    "plan is a part of their key and holds it",
    ("entry_points", "*", "evaluation"): "a task of its own, whose key holds it",
    ("target", "*", "memory_limit"): "compared with what was built, in every build",
}
"""Keys that neither the capture nor a fixture's reference depends on, with the reason; "*" is any
name. A program that opens the manifest itself depends on all of it, as on any other file.
"""

NAMED = ("weights", "dimensions", "precision", "target", "entry_points")
"""Tables by name, whose order means nothing: a component for each name."""


def program_sections(text: bytes) -> dict[str, str]:
    """Map each section, as "build manifest entry_points.predict", to a digest.

    `text` is that of a valid manifest. Comments, spaces and the order of named tables do not count;
    the order of keys within them does.
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
    """Return an integer unchanged, and the digest of any other value's `repr`.

    That distinguishes 1.0 from 1, a date from its text, and orders of keys.
    """
    return str(value) if isinstance(value, int) else sha256(repr(value).encode())
