"""Open files of a path, and a bundle on disk as a `BlobSource`.

A bundle is one .aotb file, or an OCI layout folder. Its files are opened once and mapped read-only.
Replacing a loaded bundle by renaming another over it is safe; writing into the mapped file is not
(docs/reference/trust-policy.md).
"""

import errno
import mmap
import os
import stat
import sys
from collections.abc import Callable, Mapping

from msgspec import Struct

from aotc_runtime.base import encodable
from aotc_runtime.base.digest import is_digest
from aotc_runtime.base.errors import refusal
from aotc_runtime.formats import oci_layout, tar_archive


def read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a regular file, or a pipe such as `<(command)`.

    Reads up to `most` + 1 bytes, so that the caller can tell a larger file. Raises OSError; at
    once for a folder, a device, and a pipe that nobody writes into, from which nothing may ever
    come.
    """
    descriptor = open_descriptor(path)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode):
            from aotc_runtime.system.pipes import read_pipe

            return read_pipe(descriptor, most + 1)
        require_regular(mode)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(descriptor)


def open_descriptor(path: str | os.PathLike[str]) -> int:
    """Open a path for reading, at once; without O_NONBLOCK, opening a pipe waits for a writer."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def require_regular(mode: int) -> None:
    """Raise OSError for the mode of anything but a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "no regular file")


class MappedBundle(Struct, frozen=True):
    """A bundle whose members are views over read-only maps."""

    name: str
    members: Mapping[str, memoryview]

    def file(self, name: str) -> memoryview | None:
        """Return the bytes of `oci-layout` or `index.json`, or None."""
        return self.members.get(name)

    def blob(self, digest: str) -> memoryview | None:
        """Return the bytes of a blob, or None."""
        return self.members.get(oci_layout.BLOB_FOLDER + digest.removeprefix("sha256:"))

    def digests(self) -> frozenset[str]:
        """Return the digests of all blobs."""
        return frozenset(
            "sha256:" + name.removeprefix(oci_layout.BLOB_FOLDER)
            for name in self.members
            if name.startswith(oci_layout.BLOB_FOLDER)
        )


type MapOf = Callable[..., mmap.mmap]
"""`mmap.mmap`, or what makes another map of a descriptor, a size and options."""


def map_file(path: str | os.PathLike[str], kind: MapOf = mmap.mmap) -> memoryview:
    """Map a file read-only with `kind`, and return its bytes. Raises OSError."""
    descriptor = open_descriptor(path)
    try:
        status = os.fstat(descriptor)
        require_regular(status.st_mode)
        if status.st_size == 0:
            return memoryview(b"")
        # Otherwise each map keeps a descriptor, and a folder of many blobs runs out of them.
        untracked = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        return memoryview(kind(descriptor, status.st_size, access=mmap.ACCESS_READ, **untracked))
    finally:
        os.close(descriptor)


def open_bundle(path: str | os.PathLike[str], kind: MapOf = mmap.mmap) -> MappedBundle:
    """Open a bundle with maps made by `kind`: framing only, nothing in it is believed.

    Raises BundleFormatError: AOTC-E108 no such bundle or not readable, E103 to E105 for the
    archive, E109 for a folder that is no OCI layout or holds anything else.
    """
    shown = encodable(str(path))
    try:
        # Joined to nothing it is itself, but neither bytes nor a number, which `os` would take.
        location = os.path.join("", path)
        if os.path.isdir(location):
            from aotc_runtime.system.layout_folder import read_folder

            members = read_folder(location, shown, lambda file: map_file(file, kind))
        else:
            data = map_file(location, kind)
            members = {
                member.name: data[member.offset : member.offset + member.size]
                for member in tar_archive.read_members(data, where=shown).values()
            }
    except (OSError, ValueError, TypeError) as error:
        # ValueError: a null character, or text that no file name can hold.  TypeError: no path.
        raise refusal(
            "AOTC-E108", _inside(shown, error), getattr(error, "strerror", None) or str(error)
        ) from error
    _check_names(members, shown)
    return MappedBundle(shown, members)


def _inside(shown: str, error: Exception) -> str:
    """Return the bundle's name, and that of the file or folder in it that an error names."""
    folder, name = f"{shown}/", encodable(str(getattr(error, "filename", "")))
    return f"{shown} {name.removeprefix(folder)}" if name.startswith(folder) else shown


def _check_names(members: Mapping[str, memoryview], shown: str) -> None:
    for name in members:
        hexadecimal = name.removeprefix(oci_layout.BLOB_FOLDER)
        is_blob = name != hexadecimal and is_digest(f"sha256:{hexadecimal}")
        if not is_blob and name not in (oci_layout.LAYOUT_FILE, oci_layout.INDEX_FILE):
            known = f"{oci_layout.LAYOUT_FILE}, {oci_layout.INDEX_FILE}"
            expected = f"{known}, or {oci_layout.BLOB_FOLDER}DIGEST"
            cause = "unexpected-file-in-the-bundle-directory"
            raise refusal("AOTC-E109", shown, name, cause=cause, expected=expected)
