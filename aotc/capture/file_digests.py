"""Digests of files, each read once by a process as long as nobody writes into it."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import BinaryIO

from aotc_runtime.digest import sha256_of
from aotc_runtime.system.store import open_regular

PIECE_BYTES = 2**20

SETTLED_SECONDS = 1.0
"""A file that was written as lately as this may be written again and have the same times."""

type State = tuple[int, int, int, int, int]

_KNOWN: dict[State, str] = {}


def digest_of(path: Path) -> str:
    """The digest of a regular file, however large; the one that was taken before, if the file is
    still the same and nobody has written into it. Raises OSError.
    """
    with open_regular(path) as file:
        return digest_of_open(file)


def digest_of_open(file: BinaryIO) -> str:
    """As `digest_of`, of a file that is open."""
    before = _state(file)
    if before in _KNOWN:
        return _KNOWN[before]
    file.seek(0)
    digest = sha256_of(iter(partial(file.read, PIECE_BYTES), b""))
    if _state(file) == before and time.time() - os.fstat(file.fileno()).st_ctime > SETTLED_SECONDS:
        _KNOWN[before] = digest
    return digest


def _state(file: BinaryIO) -> State:
    found = os.fstat(file.fileno())
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return (found.st_dev, found.st_ino, found.st_size, *times)
