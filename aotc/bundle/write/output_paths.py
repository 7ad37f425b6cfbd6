"""Output paths: a result gets a new name or replaces an older result, and nothing else."""

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotc.base.errors import refusal
from aotc.bundle.write.atomic_files import as_write_error, require_short_name
from aotc_runtime.formats import oci_layout

STANDARD_OUTPUT = Path("-")
HEAD_BYTES = 512
_ZIP_MEMBER, _ZIP_EMPTY = b"PK\x03\x04", b"PK\x05\x06"
_ZIP_NAME_LENGTH, _ZIP_NAME = slice(26, 28), 30


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file that a later result may replace. recognizes: by its first 512 bytes."""

    name: str
    recognizes: Callable[[bytes], bool]


def _begins_a_bundle(head: bytes) -> bool:
    """Return whether the first member of a tar archive is the file that every OCI layout has."""
    return head[257:262] == b"ustar" and head[:100].rstrip(b"\0") == oci_layout.LAYOUT_FILE.encode()


def _begins_an_npz(head: bytes) -> bool:
    """Return whether the first member of a zip archive is an array."""
    length = int.from_bytes(head[_ZIP_NAME_LENGTH], "little")
    is_array = head[_ZIP_NAME : _ZIP_NAME + length].endswith(b".npy")
    return (head.startswith(_ZIP_MEMBER) and is_array) or head.startswith(_ZIP_EMPTY)


BUNDLE = Kind("a bundle", _begins_a_bundle)
NPZ = Kind("an .npz file", _begins_an_npz)
BILL_OF_MATERIALS = Kind(
    "a bill of materials",
    lambda head: head.startswith(b'{"$schema":"http://cyclonedx.org/schema/bom-'),
)
"""JSON of CycloneDX, in the canonical form that aotc writes."""
REPORT = Kind("a report", lambda head: head.startswith(b"<!doctype html>\n<!-- aotc report -->\n"))
"""HTML that says whose it is."""
ENVELOPE = Kind("a DSSE envelope", lambda head: head.startswith(b'{"payload":"'))


def require_file_place(path: Path, replaceable: Kind) -> None:
    """Refuse a place that cannot be written, or holds a file of another kind than `replaceable`.

    An empty file may be replaced. Raises UsageError (AOTC-E003, E004).
    """
    require_new_file(path)
    with as_write_error(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        found = _what_is_there(path, replaceable)
    if found:
        expected = f"a new file, or {replaceable.name} to replace"
        raise refusal("AOTC-E004", str(path), found, expected=expected)


def require_new_file(path: Path) -> None:
    """Reject a path where no new file can be written. Raises UsageError (AOTC-E003).

    Its folder or its name may be unusable, and `-` means standard output in scripts.
    """
    if path == STANDARD_OUTPUT:
        raise refusal("AOTC-E003", str(path), "", cause="stdout-is-not-supported-as-output")
    with as_write_error(path):
        require_short_name(path)
        with tempfile.TemporaryFile(dir=path.parent):
            pass


def require_folder_place(path: Path) -> None:
    """Refuse a folder that holds anything but an OCI layout, or that cannot have its name.

    Raises UsageError (AOTC-E003, E004).
    """
    with as_write_error(path):
        require_short_name(path)
    is_new = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    if not is_new and not (path / oci_layout.LAYOUT_FILE).is_file():
        expected = "a new directory, or an OCI layout to replace"
        cause = "output-directory-is-not-empty"
        raise refusal("AOTC-E004", str(path), "", cause=cause, expected=expected)


def require_disjoint_outputs(first: Path, others: Sequence[Path]) -> None:
    """Reject results of one command that replace each other or lie inside of another.

    A folder with other files is no OCI layout. The last step of a path may not exist yet.
    Raises UsageError (AOTC-E004).
    """
    places: list[Path] = []
    for path in (first, *others):
        place = path.parent.resolve() / path.name
        for before in places:
            if place.is_relative_to(before):
                found = f"{before}, which is written too"
                raise refusal("AOTC-E004", str(path), found, cause="two-outputs-share-a-path")
        places.append(place)


def require_distinct_output(path: Path, source: Path, lost: str) -> None:
    """Reject an output path that is the source bundle itself, by whatever path.

    `lost` names the parts of the bundle that its successor would lack. Raises UsageError
    (AOTC-E054).
    """
    try:
        same = path.samefile(source)
    except OSError:
        return  # one of them is not there, of which whoever opens it tells more
    if same:
        found = f"{source}, which would lose its {lost}"
        raise refusal("AOTC-E054", str(path), found)


def _what_is_there(path: Path, replaceable: Kind) -> str:
    """Return what must not be replaced; empty if nothing is there that matters. Raises OSError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "no regular file"
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return "" if not head or replaceable.recognizes(head) else "a file of another kind"
