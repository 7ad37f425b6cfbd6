"""The members of an uncompressed tar archive, read strictly.

Header fields as in POSIX ustar, in the spelling GNU tar uses for sizes above 8 GiB
(https://www.gnu.org/software/tar/manual/html_node/Standard.html); either magic is accepted, so that
a bundle may be repacked by any tar. Only regular files are accepted: links, devices, folders and
extension records have no business in a bundle.
"""

from __future__ import annotations

import re

from msgspec import Struct

from aotc_runtime.base import limits
from aotc_runtime.base.errors import refusal

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


def read_members(data: memoryview, *, where: str) -> dict[str, Member]:
    """The archive's members by name, in file order.

    Raises BundleFormatError: AOTC-E103 not an archive or truncated, E104 a member that is not
    allowed (kind, name, duplicate), E105 bytes that belong to no member.
    """
    members: dict[str, Member] = {}
    at = 0
    if _is_text(bytes(data[:BLOCK])):
        expected = "a bundle, which is a tar archive"
        hint = "pass the .aotb file that `aotc build` wrote, not a manifest, policy or key"
        raise refusal("AOTC-E103", where, "a file of text", expected=expected, hint=hint)
    while True:
        header = bytes(data[at : at + BLOCK])
        if len(header) < BLOCK:
            raise refusal("AOTC-E103", where, "a truncated file")
        if not any(header):
            break
        member = _member(header, at, where)
        place, end = f"{where} {member.name}", member.offset + member.size
        at = member.offset + -(-member.size // BLOCK) * BLOCK
        if at > len(data):
            found, expected = f"{len(data) - member.offset} bytes", f"{member.size} bytes"
            raise refusal("AOTC-E103", place, found, expected=expected)
        if any(data[end:at]):
            raise refusal("AOTC-E105", place, "other bytes", expected="zero padding")
        if member.name in members:
            found = "a second member of this name"
            raise refusal("AOTC-E104", place, found, expected="each name once")
        if len(members) >= limits.BLOBS_MAX:
            expected = f"at most {limits.BLOBS_MAX} members"
            raise refusal("AOTC-E104", where, "more", expected=expected)
        members[member.name] = member
    trailer = data[at:]
    if len(trailer) < 2 * BLOCK:
        raise refusal("AOTC-E103", where, "a truncated file")
    if len(trailer) > TRAILER_BYTES_MAX or len(trailer) % BLOCK or any(trailer):
        raise refusal("AOTC-E105", where, "further bytes", expected="nothing after the last member")
    return members


def _is_text(start: bytes) -> bool:
    """Whether a file begins like a manifest, a policy or a key. A header of tar holds zeros."""
    return bool(start) and all(byte >= ord(" ") or byte in b"\t\r\n" for byte in start)


def _member(header: bytes, at: int, where: str) -> Member:
    place = f"{where} at byte {at}"
    if header[257:265] not in MAGICS:
        raise refusal("AOTC-E103", place, "something else", expected="a tar header")
    checksum = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if _number(header[148:156], place) != checksum:
        found, expected = "a wrong checksum: it is damaged", "a header with a correct checksum"
        raise refusal("AOTC-E103", place, found, expected=expected)
    name = header[:100].rstrip(b"\0").decode("ascii", errors="replace")
    if header[156:157] != b"0":
        found = f"type {header[156:157].decode('ascii', errors='replace')!r}"
        raise refusal("AOTC-E104", f"{where} {name}", found, expected="regular files only")
    if any(header[157:257]) or any(header[345:512]):
        expected = "a name without link or prefix"
        raise refusal("AOTC-E104", f"{where} {name}", "one with either", expected=expected)
    if not NAME.match(name):
        expected = "a relative name of letters, digits, dots, dashes and underscores"
        raise refusal("AOTC-E104", f"{where} {name!r}", "another name", expected=expected)
    return Member(name, at + BLOCK, _number(header[124:136], place))


def _number(field: bytes, place: str) -> int:
    """Octal digits, or GNU's base-256 for large sizes."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = _OCTAL.match(field)
    if digits is None:
        raise refusal("AOTC-E103", place, repr(field), expected="an octal number")
    return int(digits[1], 8)
