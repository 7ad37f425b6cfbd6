"""Which files belong to Python, to installed distributions and to aotc itself."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from importlib.metadata import Distribution
from pathlib import Path

import aotc
import aotc_runtime

NATIVE = frozenset(
    {"jaxlib", "ml_dtypes", "msgspec", "numpy", "pydantic_core", "scipy", "scikit-learn"}
    | {"cryptography", "cffi", "MarkupSafe", "PyYAML", "regex"}
)
"""Distributions whose native code opens no files but through Python's `open`."""


@cache
def of_python_and_ours() -> tuple[str, ...]:
    """Folders of the standard library and of aotc: the version of Python and the digest of our own
    code stand for them.
    """
    paths = sysconfig.get_paths()
    ours = (aotc.__path__[0], aotc_runtime.__path__[0])
    site = {paths["purelib"], paths["platlib"]}
    return tuple(
        os.path.join(folder, "")
        for folder in dict.fromkeys((paths["stdlib"], paths["platstdlib"], *ours))
        if folder not in site
    )


@cache
def folders() -> tuple[str, ...]:
    """Where installed code lies: a file below one of these is no file of the project."""
    installed = [entry for entry in sys.path if entry and any(Path(entry).glob("*.dist-info"))]
    paths = sysconfig.get_paths()
    every = (*installed, paths["purelib"], paths["platlib"], *of_python_and_ours())
    return tuple(dict.fromkeys(os.path.join(folder, "") for folder in every))


def owned(distribution: Distribution, paths: set[str]) -> set[str]:
    """Those of these files that a distribution has installed."""
    base = os.path.join(str(distribution.locate_file("")), "")
    below = {path.removeprefix(base): path for path in paths if path.startswith(base)}
    if not below:
        return set()
    record = distribution.read_text("RECORD") or ""
    names = {line.partition(",")[0] for line in record.splitlines()}
    return {below[name] for name in below.keys() & names}
