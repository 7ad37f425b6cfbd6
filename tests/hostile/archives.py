"""Writing tar archives, good and bad, with the standard library."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from .tampering import MemoryBundle, write_folder

Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Entry:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, link
    return info, data


def entries_of(bundle: MemoryBundle) -> list[Entry]:
    return [entry(name, data) for name, data in bundle.members().items()]


def archive(entries: Iterable[Entry], form: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar archive as the standard library ends it: padded to 20 blocks."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as file:
        for info, data in entries:
            file.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def on_disk(bundle: MemoryBundle, form: str, folder: Path) -> Path:
    """The bundle as an "archive" or a "folder"."""
    if form == "folder":
        return write_folder(folder / "layout", bundle)
    path = folder / "bundle.aotb"
    path.write_bytes(archive(entries_of(bundle)))
    return path
