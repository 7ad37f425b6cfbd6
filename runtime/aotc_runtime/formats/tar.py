"""The members of an uncompressed tar archive, read strictly.

Header fields as in POSIX ustar, in the spelling GNU tar uses for sizes above 8 GiB
(https://www.gnu.org/software/tar/manual/html_node/Standard.html); either magic is accepted, so that
a bundle may be repacked by any tar. Only regular files are accepted: links, devices, folders and
extension records have no business in a bundle.
"""

from __future__ import annotations

import re

from msgspec import Struct

from aotc_runtime import limits
from aotc_runtime.errors import BundleFormatError, Finding

BLOCK = 512
MAGICS = (b"ustar  \0", b"ustar\x0000")
"""GNU's and POSIX' magic and version."""

NAME = re.compile(r"\A(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")
"""No part is empty or begins with a dot, so no name is absolute or climbs out of the bundle."""

_OCTAL = re.compile(rb"\A *([0-7]+)[ \0]*\Z")
"""What every reader takes for the same number: some end at the first zero byte."""

TRAILER_BYTES_MAX = 20 * BLOCK + 2 * BLOCK
"""Two zero blocks end an archive; tools pad to records of 20 blocks."""


class Member(Struct, frozen=True):
    """A regular file in the archive. offset, size: bytes."""

    name: str
    offset: int
    size: int


def _refuse(code: str, where: str, expected: str, found: str) -> BundleFormatError:
    return BundleFormatError(
        Finding(
            code=code,
            where=where,
            expected=expected,
            found=found,
            hint="the file is damaged, or not written by `aotc build`: fetch or build it again",
        )
    )


def read_members(data: memoryview, *, where: str) -> dict[str, Member]:
    """The archive's members by name, in file order.

    Raises BundleFormatError: AOTC-E103 not an archive or truncated, E104 a member that is not
    allowed (kind, name, duplicate), E105 bytes that belong to no member.
    """
    members: dict[str, Member] = {}
    at = 0
    if _is_text(bytes(data[:BLOCK])):
        raise BundleFormatError(
            Finding(
                code="AOTC-E103",
                where=where,
                expected="a bundle, which is a tar archive",
                found="a file of text",
                hint="pass the .aotb file that `aotc build` wrote, not a manifest, policy or key",
            )
        )
    while True:
        header = bytes(data[at : at + BLOCK])
        if len(header) < BLOCK:
            raise _refuse("AOTC-E103", where, "a tar archive with its end mark", "a truncated file")
        if not any(header):
            break
        member = _member(header, at, where)
        padded = -(-member.size // BLOCK) * BLOCK
        if member.offset + padded > len(data):
            found = f"{len(data) - member.offset} bytes"
            raise _refuse("AOTC-E103", f"{where} {member.name}", f"{member.size} bytes", found)
        if any(data[member.offset + member.size : member.offset + padded]):
            raise _refuse("AOTC-E105", f"{where} {member.name}", "zero padding", "other bytes")
        if member.name in members:
            raise _refuse(
                "AOTC-E104",
                f"{where} {member.name}",
                "each name once",
                "a second member of this name",
            )
        if len(members) >= limits.BLOBS_MAX:
            raise _refuse("AOTC-E104", where, f"at most {limits.BLOBS_MAX} members", "more")
        members[member.name] = member
        at = member.offset + padded
    trailer = data[at:]
    if len(trailer) < 2 * BLOCK:
        raise _refuse("AOTC-E103", where, "a tar archive with its end mark", "a truncated file")
    if len(trailer) > TRAILER_BYTES_MAX or len(trailer) % BLOCK or any(trailer):
        raise _refuse("AOTC-E105", where, "nothing after the last member", "further bytes")
    return members


def _is_text(start: bytes) -> bool:
    """Whether a file begins like a manifest, a policy or a key. A header of tar holds zeros."""
    return bool(start) and all(byte >= ord(" ") or byte in b"\t\r\n" for byte in start)


def _member(header: bytes, at: int, where: str) -> Member:
    if header[257:265] not in MAGICS:
        raise _refuse("AOTC-E103", f"{where} at byte {at}", "a tar header", "something else")
    checksum = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if _number(header[148:156], at, where) != checksum:
        raise _refuse(
            "AOTC-E103",
            f"{where} at byte {at}",
            "a header with a correct checksum",
            "a wrong checksum: it is damaged",
        )
    name = header[:100].rstrip(b"\0").decode("ascii", errors="replace")
    if header[156:157] != b"0":
        kind = header[156:157].decode("ascii", errors="replace")
        raise _refuse("AOTC-E104", f"{where} {name}", "regular files only", f"type {kind!r}")
    if any(header[157:257]) or any(header[345:512]):
        raise _refuse(
            "AOTC-E104", f"{where} {name}", "a name without link or prefix", "one with either"
        )
    if not NAME.match(name):
        expected = "a relative name of letters, digits, dots, dashes and underscores"
        raise _refuse("AOTC-E104", f"{where} {name!r}", expected, "another name")
    return Member(name, at + BLOCK, _number(header[124:136], at, where))


def _number(field: bytes, at: int, where: str) -> int:
    """Octal digits, or GNU's base-256 for large sizes."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = _OCTAL.match(field)
    if digits is None:
        raise _refuse("AOTC-E103", f"{where} at byte {at}", "an octal number", repr(field))
    return int(digits[1], 8)
