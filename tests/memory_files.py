"""Folder in memory, for tests that write and remove thousands of files."""

import os
import tempfile
from functools import cache
from pathlib import Path

MEMORY = Path("/dev/shm")


def folder_in_memory(otherwise: Path | None = None) -> tempfile.TemporaryDirectory[str]:
    """One of its own, which goes with what is returned. otherwise: where it lies on systems without
    files in memory; by default, where temporary files do.
    """
    where = MEMORY if os.access(MEMORY, os.W_OK) else otherwise
    return tempfile.TemporaryDirectory(prefix="aotc-test-", dir=where)


@cache
def kept_folder() -> tempfile.TemporaryDirectory[str]:
    """One for all of a process, which goes with it."""
    return folder_in_memory()
