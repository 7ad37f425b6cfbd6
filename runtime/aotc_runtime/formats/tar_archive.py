"""The members of an uncompressed tar archive, read strictly.

Header fields as in POSIX ustar, in the spelling GNU tar uses for sizes above 8 GiB
(https://www.gnu.org/software/tar/manual/html_node/Standard.html); either magic is accepted, so that
a bundle may be repacked by any tar. Only regular files are accepted: links, devices, folders and
extension records have no business in a bundle.
"""

import re

from msgspec import Struct

from aotc_runtime.base import limits
from aotc_runtime.base.digest import copy_of
from aotc_runtime.base.errors import refusal

BLOCK = 512
MAGICS = (b"ustar  \0", b"ustar\x0000")
"""GNU's and POSIX' magic and version."""

NAME = re.compile(r"\A(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")
"""No part is empty or begins with a dot, so no name is absolute or climbs out of the bundle."""

_OCTAL = re.compile(rb"\A *([0-7]+)[ \0]*\Z")
"""Numbers that every reader parses alike: some readers end at the first zero byte."""

TRAILER_BYTES_MAX = 20 * BLOCK + 2 * BLOCK
"""Two zero blocks end an archive; tools pad to records of 20 blocks."""


class Member(Struct, frozen=True):
    """A regular file in the archive; `offset` and `size` are in bytes."""

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
    if _is_text(copy_of(data[:BLOCK])):
        raise refusal("AOTC-E103", where, "a text file", expected="a tar archive")
    while True:
        header = copy_of(data[at : at + BLOCK])
        if len(header) < BLOCK:
            raise refusal("AOTC-E103", where, "", cause="bundle-archive-is-truncated")
        if not any(header):
            break
        member = _member(header, at, where)
        place, end = f"{where} {member.name}", member.offset + member.size
        at = member.offset + -(-member.size // BLOCK) * BLOCK
        if at > len(data):
            found, expected = f"{len(data) - member.offset} bytes", f"{member.size} bytes"
            cause = "bundle-archive-is-truncated"
            raise refusal("AOTC-E103", place, found, cause=cause, expected=expected)
        if any(copy_of(data[end:at])):
            raise refusal("AOTC-E105", place, "nonzero padding", expected="zeros")
        if member.name in members:
            raise refusal("AOTC-E104", place, "", cause="duplicate-archive-member")
        if len(members) >= limits.BLOBS_MAX:
            many, expected = "too-many-archive-members", f"at most {limits.BLOBS_MAX}"
            raise refusal("AOTC-E104", where, "more members", cause=many, expected=expected)
        members[member.name] = member
    trailer = data[at:]
    if len(trailer) < 2 * BLOCK:
        raise refusal("AOTC-E103", where, "", cause="bundle-archive-is-truncated")
    if len(trailer) > TRAILER_BYTES_MAX or len(trailer) % BLOCK or any(copy_of(trailer)):
        raise refusal("AOTC-E105", where, "bytes after the last member")
    return members


def _is_text(start: bytes) -> bool:
    """Return whether a file begins with text. A tar header holds zeros."""
    return bool(start) and all(byte >= ord(" ") or byte in b"\t\r\n" for byte in start)


def _member(header: bytes, at: int, where: str) -> Member:
    place = f"{where} at byte {at}"
    if header[257:265] not in MAGICS:
        raise refusal("AOTC-E103", place, "", expected="a tar header")
    checksum = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if _number(header[148:156], place) != checksum:
        raise refusal("AOTC-E103", place, "a wrong checksum", cause="tar-header-is-corrupt")
    name = header[:100].rstrip(b"\0").decode("ascii", errors="replace")
    if header[156:157] != b"0":
        found = f"type {header[156:157].decode('ascii', errors='replace')!r}"
        raise refusal("AOTC-E104", f"{where} {name}", found, expected="a regular file")
    if any(header[157:257]) or any(header[345:512]):
        raise refusal("AOTC-E104", f"{where} {name}", "a link, or a name with a prefix")
    if not NAME.match(name):
        expected = "a relative name of letters, digits, '.', '-' and '_'"
        raise refusal("AOTC-E104", where, repr(name), expected=expected)
    return Member(name, at + BLOCK, _number(header[124:136], place))


def _number(field: bytes, place: str) -> int:
    """Octal digits, or GNU's base-256 for large sizes."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = _OCTAL.match(field)
    if digits is None:
        cause = "tar-header-is-corrupt"
        raise refusal("AOTC-E103", place, repr(field), cause=cause, expected="an octal number")
    return int(digits[1], 8)
