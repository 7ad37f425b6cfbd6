"""Maps of files that are used some time after they were hashed."""

import errno
import fcntl
import mmap
import os
import resource
import time
from enum import Enum

SETTLED_SECONDS = 0.02
"""The system's clock for files has steps of 10 ms at most."""

PIECE_BYTES = 2**20


class Change(Enum):
    """A change of a held file.

    WRITTEN: its contents were written. PERHAPS: its names, mode or owner changed, as when it is
    replaced; or a write is being hidden.
    """

    NONE = "none"
    PERHAPS = "perhaps"
    WRITTEN = "written"


class HeldFiles:
    """Mapped files that can be checked for later writes.

    A file that replaces one of them does not affect the map. Each holds a descriptor for as long as
    this object exists.
    """

    def __init__(self) -> None:
        self._files: list[tuple[int, tuple[int, int, int]]] = []
        self._seen = self._files

    def __del__(self) -> None:
        for descriptor, _ in self._files:
            os.close(descriptor)

    def map(self, descriptor: int, size: int, **options: int) -> mmap.mmap:
        """Map an open file with these `mmap.mmap` options, and keep a descriptor of its own for it.

        Raises OSError.
        """
        held = duplicate(descriptor)
        self._files.append((held, _settle(held)))
        return mmap.mmap(held, size, **options)

    def change(self) -> Change:
        """Return the change since the files were mapped or accepted, as far as known.

        A process that had mapped a file for writing, and began to write before, is not detected.
        """
        self._seen = [(held, _settle(held)) for held, _ in self._files]
        pairs = zip(self._files, self._seen, strict=True)
        differing = [(before, now) for (_, before), (_, now) in pairs if before != now]
        if any(before[:2] != now[:2] for before, now in differing):
            return Change.WRITTEN
        return Change.PERHAPS if differing else Change.NONE

    def accept(self) -> None:
        """They are what they were, though they had changed when `change` was asked last."""
        self._files = self._seen


def duplicate(descriptor: int) -> int:
    """Duplicate a file's descriptor.

    A layout of many blobs may need more descriptors than the soft limit, which is raised to the
    hard one. Raises OSError.
    """
    try:
        return os.dup(descriptor)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return os.dup(descriptor)


def _state(descriptor: int) -> tuple[int, int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _settle(descriptor: int) -> tuple[int, int, int]:
    """Return the state of a file once any later write must change it."""
    while 0 <= time.time() - os.fstat(descriptor).st_ctime < SETTLED_SECONDS:
        time.sleep(SETTLED_SECONDS / 10)
    return _state(descriptor)


def map_sealed(descriptor: int, size: int, **_: int) -> mmap.mmap:
    """Map a copy in memory that no process can write into.

    Raises OSError: ENODATA for a file that becomes shorter meanwhile.
    """
    copy = os.memfd_create("aotc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(copy, size)
        at = 0
        while at < size:
            piece = os.pread(descriptor, min(PIECE_BYTES, size - at), at)
            if not piece:
                raise OSError(errno.ENODATA, "it became shorter while it was read")
            at += os.pwrite(copy, piece, at)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)
        # Before Linux 6.7, what is sealed cannot be mapped shared, not even for reading.
        return mmap.mmap(copy, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    finally:
        os.close(copy)
