"""Files that are no tar archive, or one that a bundle may not be."""

import gzip
import io
import tarfile
from collections.abc import Callable
from typing import Any

from ..archives import Entry, archive, entries_of, entry
from ..tampering import BLOBS
from .case import Case, Kit, archived

HEX = BLOBS + "0" * 64


def whole(kit: Kit) -> bytes:
    return archive(entries_of(kit.bundle))


def end_of(data: bytes) -> int:
    """Return where the two zero blocks begin."""
    return len(data.rstrip(b"\0")) + 511 & ~511


def also(*more: Entry, form: int = tarfile.GNU_FORMAT) -> Callable[[Kit], bytes]:
    return lambda kit: archive([*entries_of(kit.bundle), *more], form)


def first(*more: Entry) -> Callable[[Kit], bytes]:
    return lambda kit: archive([*more, *entries_of(kit.bundle)])


def header(at: int, value: bytes, summed: bool = True) -> Callable[[Kit], bytes]:
    """The first header changed. summed: with a right check sum."""

    def make(kit: Kit) -> bytes:
        data = bytearray(whole(kit))
        data[at : at + len(value)] = value
        if summed:
            data[148:156] = b" " * 8
            data[148:156] = b"%06o\0 " % sum(data[:512])
        return bytes(data)

    return make


def size(field: bytes) -> Callable[[Kit], bytes]:
    return header(124, field)


def resized(by: int) -> Callable[[Kit], bytes]:
    """`oci-layout` claims some bytes more or less than it has."""
    return lambda kit: size(b"%011o\0" % (len(kit.bundle.files["oci-layout"]) + by))(kit)


def with_pax(name: str, **records: str) -> Callable[[Kit], bytes]:
    """A good member with these pax records before it."""

    def make(kit: Kit) -> bytes:
        entries = entries_of(kit.bundle)
        index = next(i for i, (info, _) in enumerate(entries) if info.name == name)
        entries[index][0].pax_headers = records
        return archive(entries, tarfile.PAX_FORMAT)

    return make


def with_global_pax(kit: Kit) -> bytes:
    stream = io.BytesIO()
    records = {"path": "index.json"}
    with tarfile.open(
        fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, pax_headers=records
    ) as file:
        for info, data in entries_of(kit.bundle):
            file.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def padding_used(kit: Kit) -> bytes:
    data = bytearray(whole(kit))
    data[512 + len(kit.bundle.files["oci-layout"])] = 1
    return bytes(data)


def twice(name: str, data: bytes | None = None) -> Callable[[Kit], bytes]:
    def make(kit: Kit) -> bytes:
        return also(entry(name, kit.bundle.members()[name] if data is None else data))(kit)

    return make


def a_blob_twice(kit: Kit) -> bytes:
    return twice(next(name for name in kit.bundle.members() if name.startswith(BLOBS)))(kit)


def _cases(code: str, named: dict[str, Callable[[Kit], bytes]]) -> list[Case]:
    return [archived(name, code, make) for name, make in named.items()]


def _members(code: str, named: dict[str, tuple[Any, ...]]) -> list[Case]:
    return _cases(code, {name: also(entry(*of)) for name, of in named.items()})


ARCHIVES: tuple[Case, ...] = (
    *_cases(
        "AOTC-E103",
        {
            "an empty file": lambda kit: b"",
            "one zero block": lambda kit: bytes(512),
            "gzip": lambda kit: gzip.compress(whole(kit), mtime=0),
            "index.json alone": lambda kit: kit.bundle.files["index.json"] * 3,
            "a byte before the archive": lambda kit: b"\0" + whole(kit),
            "cut inside a header": lambda kit: whole(kit)[:300],
            "cut inside a member": lambda kit: whole(kit)[:2000],
            "cut before the end mark": lambda kit: whole(kit)[: end_of(whole(kit))],
            "half an end mark": lambda kit: whole(kit)[: end_of(whole(kit)) + 512],
            "a check sum that is wrong": header(136, b"1", summed=False),
            "a check sum that is no number": header(148, b"xxxxxxxx", summed=False),
            "another magic": header(257, b"usta7"),
            "no magic, as before POSIX": header(257, bytes(8)),
            "a size of 8 GiB": size(b"77777777777\0"),
            "a size of 1 TiB": size(b"\x80" + bytes(5) + b"\1" + bytes(5)),
            "a size of 2^88": size(b"\x80" + b"\xff" * 11),
            "a size below zero in base 256": size(b"\xff" * 12),
            "a blank size": size(b" " * 12),
            "a size with a 9": size(b"00000000009\0"),
            "a size with a zero byte inside": size(b"00\x000000036\0"),
            "a size that swallows the next header": size(b"%011o\0" % 1024),
            "a size of zero": resized(-30),
        },
    ),
    *_cases(
        "AOTC-E104",
        {
            "a pax size": with_pax("oci-layout", size="2"),
            "a pax path": with_pax("oci-layout", path="index.json"),
            "a pax sparse map": with_pax("oci-layout", **{"GNU.sparse.map": "0,1"}),
            "a pax comment": with_pax("index.json", comment="x"),
            "a global pax record": with_global_pax,
            "a long name by pax": also(entry("x" * 200), form=tarfile.PAX_FORMAT),
            "a long name by GNU": also(entry("x" * 200)),
            "a long name by prefix": header(345, b"blobs"),
            "a regular file with a link name": header(157, b"index.json"),
            "a name without end": header(0, b"x" * 99 + b"/"),
            "oci-layout twice": twice("oci-layout"),
            "index.json twice": twice("index.json"),
            "another index.json later": twice("index.json", b"{}"),
            "another index.json earlier": first(entry("index.json", b"{}")),
            "a blob twice": a_blob_twice,
        },
    ),
    *_members(
        "AOTC-E104",
        {
            "a symbolic link": ("x", b"", tarfile.SYMTYPE, "/etc/passwd"),
            "a symbolic link without target": ("x", b"", tarfile.SYMTYPE),
            "a hard link": (HEX, b"", tarfile.LNKTYPE, "index.json"),
            "a character device": (HEX, b"", tarfile.CHRTYPE),
            "a pipe in the archive": (HEX, b"", tarfile.FIFOTYPE),
            "a folder in the archive": ("blobs", b"", tarfile.DIRTYPE),
            "a file as before POSIX": (HEX, b"", tarfile.AREGTYPE),
            "a sparse file": (HEX, b"", tarfile.GNUTYPE_SPARSE),
            "an absolute path": (f"/{HEX}",),
            "a path that climbs out": (f"../{HEX}",),
            "a path that climbs inside": (f"blobs/../{HEX}",),
            "a hidden file": (".hidden",),
            "a letter that looks like another": ("indеx.json",),
            "a name that is no text": ("index.json\udcff",),
            "a new line in a name": ("index.json\n",),
            "a zero byte in a name": ("index.json\0x",),
            "no name at all": ("",),
        },
    ),
    *_members(
        "AOTC-E109",
        {
            "a file more": ("README",),
            "a digest that is too short": (HEX[:-1],),
            "a digest in capitals": (BLOBS + "A" * 64,),
            "a digest of another algorithm": ("blobs/sha512/" + "0" * 64,),
            "a file below a blob": (HEX + "/x",),
            "blobs as a file": ("blobs",),
        },
    ),
    *_cases(
        "AOTC-E105",
        {
            "a byte behind the archive": lambda kit: whole(kit) + b"x",
            "a zero byte behind the archive": lambda kit: whole(kit) + b"\0",
            "a byte behind a block of zeros": lambda kit: whole(kit) + bytes(511) + b"x",
            "an archive behind the archive": lambda kit: whole(kit) * 2,
            "a member behind the end mark": lambda kit: (
                whole(kit)[: end_of(whole(kit)) + 1024] + archive([entry("index.json", b"{}")])
            ),
            "1 MiB of zeros behind the archive": lambda kit: whole(kit) + bytes(2**20),
            "a signature behind the archive": lambda kit: whole(kit) + b"\x30\x45" + bytes(70),
            "bytes hidden in padding": padding_used,
            "a size that is one too small": resized(-1),
            "a size that reaches into the next header": resized(512),
        },
    ),
    *_cases(
        "AOTC-E110",
        {
            "an archive of nothing": lambda kit: bytes(1024),
            "an archive of index.json": lambda kit: archive([entry("index.json", b"{}")]),
        },
    ),
    *_cases("AOTC-E106", {"a size that is one too large": resized(1)}),
)
