"""Check IREE's modules before they are loaded, since its loader trusts its input.

IREE 3.13.0 loaded some modules with changed bytes, and others ended the process. Its compiler
writes an archive (ZIP64, nothing compressed; PKWARE's APPNOTE, 4.3): `module.fb`, the virtual
machine's code, and optionally large constants, whose names end in `.bin`, and a library for the
processor, whose name ends in `.so`.
"""

import struct
import zlib
from collections.abc import Iterator

MODULE, CONSTANTS, LIBRARY = b"module.fb", b".bin", b".so"

MACHINES = {"x86_64": 62, "aarch64": 183}
"""By the system's name of an architecture, the number that ELF has for it."""

_LOCATOR, _END = struct.Struct("<4s4xQ4x"), struct.Struct("<4s18x")
_DIRECTORY = struct.Struct("<4s28xQ8xQ")
_ENTRY = struct.Struct("<4s6xH4xLLLHHH8xL")
_LARGE = struct.Struct("<HHQQQ")
_LOCAL = struct.Struct("<4s22xHH")
_ELF = struct.Struct("<4sBB12xH")


def require_module(data: memoryview, architecture: str) -> None:
    """Raise ValueError unless these bytes are a whole module for this architecture.

    `architecture` is the system's name for it.
    """
    if bytes(data[:4]) != b"PK\3\4":
        raise ValueError("no module of IREE")
    try:
        members = list(_members(data))
        others = [name for name, _ in members if not name.endswith((CONSTANTS, LIBRARY))]
        found = {_ELF.unpack_from(code) for name, code in members if name.endswith(LIBRARY)}
    except (struct.error, OverflowError) as error:
        raise ValueError("a module that is cut") from error
    if others != [MODULE]:
        raise ValueError("an archive that is no module")
    for magic, bits, order, machine in found:
        if (magic, bits, order) != (b"\x7fELF", 2, 1):
            raise ValueError("a module whose code is no library of 64 bits")
        if machine != MACHINES.get(architecture):
            names = {number: name for name, number in MACHINES.items()}
            raise ValueError(f"code for {names.get(machine, f'machine {machine} of ELF')}")


def _members(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Yield names and contents.

    Raises ValueError for contents that differ from their checksum, and struct.error or
    OverflowError for offsets beyond the end.
    """
    (end,) = _END.unpack_from(data, len(data) - _END.size)
    locator, directory = _LOCATOR.unpack_from(data, len(data) - _END.size - _LOCATOR.size)
    if (end, locator) != (b"PK\5\6", b"PK\6\7"):
        raise ValueError("a module that is cut")
    magic, count, at = _DIRECTORY.unpack_from(data, directory)
    if magic != b"PK\6\6":
        raise ValueError("a module that is damaged")
    for _ in range(count):
        magic, method, checksum, _, _, name_size, more, comment, _ = _ENTRY.unpack_from(data, at)
        name_at = at + _ENTRY.size
        kind, _, size, stored, local = _LARGE.unpack_from(data, name_at + name_size)
        local_magic, *before = _LOCAL.unpack_from(data, local)
        start = local + _LOCAL.size + sum(before)
        contents = data[start : start + size]
        is_read = (magic, method, kind, local_magic) == (b"PK\1\2", 0, 1, b"PK\3\4")
        if not is_read or size != stored or zlib.crc32(contents) != checksum:
            raise ValueError("a module that is damaged")
        yield bytes(data[name_at : name_at + name_size]), contents
        at = name_at + name_size + more + comment
