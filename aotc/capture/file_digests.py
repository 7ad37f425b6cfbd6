"""Digests of files, and files that change while a build reads them.

A file that changes between two reads is rejected, so that provenance names exactly the bytes used.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from aotc.base.errors import finding, refusal
from aotc.config.build_manifest import SourceFile
from aotc_runtime.base.digest import sha256, sha256_of
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.system.regular_files import open_regular

PIECE_BYTES = 2**20


class State(NamedTuple):
    """The state of a file, equal while it is the same file.

    `changed` is the inode's time, which no program sets: it shows a reset modification time.
    """

    device: int
    inode: int
    size: int
    modified: int
    changed: int


def digest_of(path: Path) -> str:
    """Return the digest of a regular file, however large. Raises OSError."""
    with open_regular(path) as file:
        return digest_of_open(file)


def digest_of_open(file: BinaryIO) -> str:
    """Return the digest of an open file."""
    file.seek(0)
    return sha256_of(iter(partial(file.read, PIECE_BYTES), b""))


def state_of(path: str) -> State | None:
    """Return the state of a file; None if it cannot be looked at."""
    try:
        return _state(os.stat(path))
    except OSError:
        return None


def state_of_open(file: BinaryIO) -> State:
    """Return the state of an open file."""
    return _state(os.fstat(file.fileno()))


def _state(found: os.stat_result) -> State:
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return State(found.st_dev, found.st_ino, found.st_size, *times)


def read_source(source: SourceFile, where: str) -> tuple[bytes, str]:
    """Return a file's bytes and their digest.

    Raises OSError, and CaptureError (AOTC-E840) for a file that was written while it was read.
    """
    with open_regular(source.path) as file:
        return read_open(file, source.text, where)


def read_open(file: BinaryIO, name: str, where: str) -> tuple[bytes, str]:
    """Return an open file's bytes and their digest; `name` is for messages.

    Raises OSError, and CaptureError (AOTC-E840) for a file that was written while it was read.
    """
    before = state_of_open(file)
    data = file.read()
    if state_of_open(file) != before or len(data) != before.size:
        raise changed_while_read(where, name)
    return data, sha256(data)


def find_changes(first: Mapping[str, str], then: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Yield AOTC-E840 for each file whose digest has changed between two reads.

    `first` has digests by name; names in `then` that are not in `first` are new.
    """
    for name, digest in then:
        if first.get(name, digest) != digest:
            yield finding("AOTC-E840", name, f"{first[name]}, then {digest}")


def changed_while_read(where: str, file: str) -> AotcError:
    """AOTC-E840 for a file that was written while it was read."""
    return refusal("AOTC-E840", where, f"a write to {file} while it was read")
