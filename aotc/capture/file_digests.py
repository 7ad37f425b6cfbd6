"""Digests of files, each read once by a process as long as nobody writes into it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

from aotc_runtime.base.digest import sha256_of
from aotc_runtime.system.bundle_files import open_regular
from aotc_runtime.system.streamed_bundle import Told, nobody

PIECE_BYTES = 2**20

SETTLED_SECONDS = 1.0
"""A file that was written as lately as this may be written again and have the same times."""

LARGE_BYTES = 2**20
"""Below this, hashing a file again costs less than remembering its digest for another process."""

type State = tuple[int, int, int, int, int]
"""What a file is known by: device, number (inode), size, when it was modified, and when anything of
it was changed. No program sets the last, so that one which puts back the time of modification is
noticed.
"""

_KNOWN: dict[State, str] = {}


def learn(known: Mapping[State, str]) -> None:
    """Believe digests that another process took, as long as the files are the same."""
    _KNOWN.update(known)


def known() -> dict[State, str]:
    """The digests of large files that this process knows."""
    return {state: digest for state, digest in _KNOWN.items() if state[2] >= LARGE_BYTES}


def digest_of(path: Path) -> str:
    """The digest of a regular file, however large; the one that was taken before, if the file is
    still the same and nobody has written into it. Raises OSError.
    """
    with open_regular(path) as file:
        return digest_of_open(file)


def digest_of_open(file: BinaryIO, told: Told = nobody) -> str:
    """The digest of an open file, kept like those of `digest_of`.

    told: called with the number of bytes, as they are hashed.
    """
    before = _state(os.fstat(file.fileno()))
    if before in _KNOWN:
        told(before[2])
        return _KNOWN[before]
    file.seek(0)
    digest = sha256_of(_telling(iter(partial(file.read, PIECE_BYTES), b""), told))
    after = os.fstat(file.fileno())
    if _state(after) == before and time.time() - after.st_ctime > SETTLED_SECONDS:
        _KNOWN[before] = digest
    return digest


def _telling(data: Iterable[bytes], told: Told) -> Iterator[bytes]:
    for piece in data:
        yield piece
        told(len(piece))


def state_of(path: str) -> State | None:
    """What a file is known by; None if nobody can look at it."""
    try:
        return _state(os.stat(path))
    except OSError:
        return None


def _state(found: os.stat_result) -> State:
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return (found.st_dev, found.st_ino, found.st_size, *times)
