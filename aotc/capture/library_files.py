"""Which files belong to Python, to installed distributions and to aotc itself."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import aotc
import aotc_runtime


@cache
def _installed() -> tuple[str, ...]:
    """Folders with installed distributions, most of which lie within a folder of the standard
    library.
    """
    entries = [entry for entry in sys.path if entry and any(Path(entry).glob("*.dist-info"))]
    paths = sysconfig.get_paths()
    return _ending_in_a_slash([*entries, paths["purelib"], paths["platlib"]])


@cache
def _of_python() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return _ending_in_a_slash([paths["stdlib"], paths["platstdlib"]])


@cache
def _ours() -> tuple[str, ...]:
    return _ending_in_a_slash([aotc.__path__[0], aotc_runtime.__path__[0]])


def is_of_python_or_ours(path: str) -> bool:
    """Return whether a file belongs to the standard library or to aotc."""
    return path.startswith(_ours()) or is_of_python(path)


def is_of_python(path: str) -> bool:
    """Return whether a file belongs to the standard library."""
    return path.startswith(_of_python()) and not path.startswith(_installed())


@cache
def folders() -> tuple[str, ...]:
    """Folders of installed code, with a slash at the end: no file below one is the project's."""
    return tuple(dict.fromkeys((*_installed(), *_of_python(), *_ours())))


def _ending_in_a_slash(folders: Iterable[str]) -> tuple[str, ...]:
    return tuple(os.path.join(folder, "") for folder in dict.fromkeys(folders))
