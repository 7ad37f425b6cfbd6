"""The members of a zip archive as frameworks write models: they lie there as they are.

Nothing is decompressed and no two members share bytes, so that all together are no larger than the
file; the bytes of weights are views of the file's.
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT has the format.
"""

import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from aotc.base.errors import refusal
from aotc_runtime.base.digest import chunks_of
from aotc_runtime.base.errors import AotcError

MEMBERS_MAX = 1_000_000
"""A weight is a member; the largest models have tens of thousands."""

DIRECTORY_BYTES_MAX = 256 * 2**20

JSON_BYTES_MAX = 128 * 2**20
JSON_MARKS_MAX = 2**23
"""Commas, colons and opening brackets of a document: each value takes some hundred bytes of memory.
Models of a hundred layers have half a million.
"""

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<8x2H4x3L3H8xL")
"""Without its magic, versions, times, disk and attributes."""
_LOCAL = struct.Struct("<4s5H3L2H")
_FULL = 0xFFFFFFFF
_ENCRYPTED = 0x0001

NAME = re.compile(r"\A(?!/)(?:(?!\.\.?/)[^/\\\x00-\x1f\x7f]+/)*(?!\.\.?\Z)[^/\\\x00-\x1f\x7f]+\Z")
"""Neither absolute nor climbing out, and nothing that steers a terminal."""


class Damaged(Exception):
    """A file that no framework writes; `expected` and `found` fill these fields of the message."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected, self.found = expected, found


def damaged_file(where: str, error: Damaged) -> AotcError:
    """AOTC-E843 for a file."""
    return refusal("AOTC-E843", where, error.found, expected=error.expected)


@dataclass(frozen=True, slots=True)
class _Member:
    """A member that lies in the file from `start`, where its header begins, to `end`."""

    start: int
    end: int
    data: memoryview
    checksum: int


@dataclass(frozen=True, slots=True)
class Archive:
    """Members by their name, in file order."""

    members: Mapping[str, memoryview]

    def read(self, name: str) -> memoryview:
        """Return the bytes of a member. Raises Damaged."""
        if name not in self.members:
            raise Damaged(f"a member {name}", "none")
        return self.members[name]


def json_text(data: bytes | memoryview, what: str) -> bytes:
    """Return the text of a JSON document that is small enough to be decoded.

    `what` names the document in messages. Raises Damaged.
    """
    if len(data) > JSON_BYTES_MAX:
        raise Damaged(f"{what} of at most {JSON_BYTES_MAX} bytes", f"{len(data)} bytes")
    text = bytes(data)
    if sum(map(text.count, (b",", b":", b"[", b"{"))) > JSON_MARKS_MAX:
        raise Damaged(f"{what} with at most {JSON_MARKS_MAX} values", "more")
    return text


def read_archive(data: bytes | memoryview) -> Archive:
    """Return the archive in a file. Raises Damaged."""
    view = memoryview(data)
    start, size, count = _directory(view)
    if count > MEMBERS_MAX or size > DIRECTORY_BYTES_MAX:
        raise Damaged(f"at most {MEMBERS_MAX} members", str(count))
    found: dict[str, _Member] = {}
    at = start
    for _ in range(count):
        name, member, at = _member(view, at, start + size, start)
        if name in found:
            raise Damaged("each member once", f"{name} twice")
        found[name] = member
    if at != start + size:
        raise Damaged("a directory of its members alone", f"{start + size - at} further bytes")
    _require_apart(found)
    for name, member in found.items():
        _require_intact(name, member)
    return Archive({name: member.data for name, member in found.items()})


def in_one_folder(archive: Archive) -> Archive:
    """Return members by their name below the archive's one folder. Raises Damaged."""
    roots = {name.partition("/")[0] for name in archive.members}
    if len(roots) != 1:
        raise Damaged("members in one folder", f"{len(roots)} folders")
    return Archive({name.partition("/")[2]: each for name, each in archive.members.items()})


def _directory(data: memoryview) -> tuple[int, int, int]:
    """Return the offset, the bytes and the entries of the directory."""
    if bytes(data[:4]) != b"PK\x03\x04" or len(data) < _END.size:
        raise Damaged("a zip archive", "another kind of file")
    at = len(data) - _END.size
    if bytes(data[at : at + 4]) != b"PK\x05\x06":
        raise Damaged("the end of a zip archive", "other bytes: the file is truncated")
    _, disk, first, here, count, size, start, comment = _END.unpack_from(data, at)
    locator = at - _LOCATOR.size
    if locator >= 0 and bytes(data[locator : locator + 4]) == b"PK\x06\x07":
        _, _, end, _ = _LOCATOR.unpack_from(data, locator)
        if end + _END64.size != locator or bytes(data[end : end + 4]) != b"PK\x06\x06":
            raise Damaged("the end of a zip archive of 64 bits", "other bytes")
        _, _, _, _, disk, first, here, count, size, start = _END64.unpack_from(data, end)
        at = end
    if disk or first or here != count or comment or start + size != at:
        raise Damaged("a zip archive in one piece", "other numbers at its end")
    return start, size, count


def _require_apart(members: Mapping[str, _Member]) -> None:
    """Raise Damaged for members that share bytes, before any of them is read.

    Members within each other are together as large as the square of the file.
    """
    end = 0
    for name, member in sorted(members.items(), key=lambda item: item[1].start):
        if member.start < end:
            raise Damaged("members that lie beside each other", f"{name} within another")
        end = member.end


def _require_intact(name: str, member: _Member) -> None:
    """Raise Damaged for a member with another checksum."""
    found = 0
    for piece in chunks_of(member.data):
        found = zlib.crc32(piece, found)
    if found != member.checksum:
        raise Damaged(f"{name} with its checksum", "another one: it is damaged")


def _member(view: memoryview, at: int, end: int, limit: int) -> tuple[str, _Member, int]:
    """Return a member's name, the member, and where the next entry of the directory begins."""
    if at + _ENTRY.size > end or bytes(view[at : at + 4]) != b"PK\x01\x02":
        raise Damaged("an entry of a zip archive's directory", "other bytes")
    entry = _ENTRY.unpack_from(view, at)
    flags, method, checksum, packed, size, name_size, extra_size, note, offset = entry
    names = at + _ENTRY.size
    following = names + name_size + extra_size + note
    name = _name(bytes(view[names : names + name_size]))
    extra = view[names + name_size : names + name_size + extra_size]
    size, packed, offset = _wide(extra, size, packed, offset, name)
    if method or flags & _ENCRYPTED or size != packed:
        raise Damaged("members that are neither compressed nor encrypted", f"{name} is")
    if offset + _LOCAL.size > limit or bytes(view[offset : offset + 4]) != b"PK\x03\x04":
        raise Damaged(f"{name} within the file", "its place is not")
    *_, local_name, local_extra = _LOCAL.unpack_from(view, offset)
    begin = offset + _LOCAL.size + local_name + local_extra
    if begin + size > limit:
        raise Damaged(f"{name} within the file", f"{size} bytes at {begin}")
    if bytes(view[offset + _LOCAL.size : offset + _LOCAL.size + local_name]) != bytes(
        view[names : names + name_size]
    ):
        raise Damaged(f"the name {name} beside its bytes", "another one")
    member = _Member(offset, begin + size, view[begin : begin + size], checksum)
    return name, member, following


def _name(data: bytes) -> str:
    try:
        name = data.decode()
    except UnicodeDecodeError:
        name = ""
    if not NAME.match(name):
        raise Damaged(
            "members with plain relative paths", ascii(data.decode(errors="replace"))[:200]
        )
    return name


def _wide(
    extra: memoryview, size: int, packed: int, offset: int, name: str
) -> tuple[int, int, int]:
    """Return a member's sizes and offset, from its 64-bit record if they need one."""
    if _FULL not in (size, packed, offset):
        return size, packed, offset
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wanted = [number == _FULL for number in (size, packed, offset)]
            if length < 8 * sum(wanted) or at + 4 + length > len(extra):
                break
            wide = iter(struct.unpack_from(f"<{sum(wanted)}Q", extra, at + 4))
            size, packed, offset = (
                next(wide) if wants else number
                for wants, number in zip(wanted, (size, packed, offset), strict=True)
            )
            return size, packed, offset
        at += 4 + length
    raise Damaged(f"sizes of {name}", "none")
