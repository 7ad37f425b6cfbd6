"""Packages that compiling for TPUs needs beside jaxlib: the extra `tpu`, which is libtpu alone."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path

from aotc.base.errors import finding
from aotc_runtime.base.errors import Finding

PLUGIN = "libtpu"
LIBRARY = "libtpu.so"
HINT = (
    "from a clone: `pip install ./runtime ./runtime/serve '.[tpu]'` (0.6 GB more; it needs no TPU)"
)

_PINNED = re.compile(r"\Alibtpu *== *([0-9.]+?)\.\*")


def wanted() -> str:
    """Return the libtpu release of the installed jax, such as "0.0.50"; "" if unknown.

    jax's extra `tpu` names it, and jax and jaxlib have the same version.
    """
    found = (_PINNED.match(line) for line in requires("jax") or () if "tpu" in line)
    return next((match[1] for match in found if match), "")


def find() -> tuple[Path | None, str, list[Finding]]:
    """Return the installed library and its version, or why it cannot be used (AOTC-E907)."""
    needed = wanted()
    expected = f"{PLUGIN} {needed}, for jax {version('jax')}"
    try:
        installed = distribution(PLUGIN)
    except PackageNotFoundError:
        return None, "", [_finding(expected, "", HINT)]
    library = Path(str(installed.locate_file(PLUGIN))) / LIBRARY
    if not library.is_file():
        reinstall = f"`pip install --force-reinstall {PLUGIN}=={installed.version}`"
        return None, "", [_finding(expected, f"no {library.name} in it", reinstall)]
    if needed and not f"{installed.version}.".startswith(f"{needed}."):
        return (
            None,
            "",
            [
                finding(
                    "AOTC-E907",
                    PLUGIN,
                    installed.version,
                    cause="compiler-version-does-not-match-jaxlib",
                    expected=expected,
                    hint=f"run `pip install {PLUGIN}=={needed}`",
                )
            ],
        )
    return library, installed.version, []


def _finding(expected: str, found: str, hint: str) -> Finding:
    return finding("AOTC-E907", PLUGIN, found, expected=expected, hint=hint)
