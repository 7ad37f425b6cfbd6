"""Reads the files that a build manifest names, and notices if they change during a build, so that a
bundle's provenance names exactly the bytes that are in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from aotc.base.errors import CaptureError, finding
from aotc.config.build_manifest import SourceFile
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding
from aotc_runtime.system.bundle_files import open_regular


def read_source(source: SourceFile, where: str) -> tuple[bytes, str]:
    """A file's bytes and their digest.

    Raises OSError, and CaptureError (AOTC-E840) for a file that was written while it was read.
    """
    with open_regular(source.path) as file:
        before = state_of(file.fileno())
        data = file.read()
        if state_of(file.fileno()) != before or len(data) != before[0]:
            raise CaptureError(changed_meanwhile(where, source.text))
    return data, sha256(data)


def changed(first: Mapping[str, str], then: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """AOTC-E840 for each file whose digest has changed between two reads.

    first: digests by name.  then: later names and digests; names that are not in `first` are new.
    """
    for name, digest in then:
        if first.get(name, digest) != digest:
            yield _changed(name, f"{first[name]} at first, and then {digest}")


def changed_meanwhile(where: str, file: str) -> Finding:
    """AOTC-E840 for a file that was written while it was read."""
    return _changed(where, f"{file} was written while it was read")


def _changed(where: str, found: str) -> Finding:
    return finding("AOTC-E840", where, found)


def state_of(descriptor: int) -> tuple[int, int, int]:
    """What changes when an open file is written into; its size first."""
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
