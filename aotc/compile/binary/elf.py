"""Functions of a 64-bit little-endian ELF object: their names, addresses and code.

Linux' elf(5): file header, section headers of 64 bytes, symbols of 24 bytes in `.symtab`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

MAGIC = b"\x7fELF\x02\x01"
"""64 bits, little-endian."""

X86_64, AARCH64 = 62, 183
"""EM_X86_64, EM_AARCH64."""

_TOGETHER_MAX = 4
"""Symbols, names and code of an object together, as a multiple of it; aliases share their code."""

SYMBOL_TABLE = 2
_FUNCTION = 2
_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, slots=True)
class Function:
    """A function's code.

    `machine` is the ELF number of its instruction set; `code` begins at `address` of its section.
    """

    name: str
    machine: int
    address: int
    code: bytes


@dataclass(frozen=True, slots=True)
class Section:
    """An ELF section: `sh_type`, address in memory, offset in the file, section with its names."""

    kind: int
    address: int
    offset: int
    size: int
    link: int


def functions(elf: bytes) -> Iterator[Function]:
    """Yield the functions of an object file, by address.

    Raises ValueError for bytes that are no object file, or whose tables, names or functions overlap
    many times, which would multiply the size of the file.
    """
    if not elf.startswith(MAGIC):
        raise ValueError("no 64-bit little-endian ELF file")
    left = _TOGETHER_MAX * len(elf)
    try:
        (machine,) = struct.unpack_from("<H", elf, 0x12)
        sections = list(sections_of(elf))
        tables = [table for table in sections if table.kind == SYMBOL_TABLE]
        left -= sum(min(table.size, len(elf)) for table in tables)
        found: list[Function] = []
        for table in tables if left >= 0 else ():
            for name, section, address, size in _symbols(elf, table, sections[table.link]):
                start = sections[section].offset + address
                found.append(Function(name, machine, address, elf[start : start + size]))
                left -= len(name) + len(found[-1].code)
                if left < 0:
                    break
        if left < 0:
            raise ValueError("functions that overlap")
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"damaged ELF file: {error}") from error
    yield from sorted(found, key=lambda f: (f.address, f.name))


def sections_of(elf: bytes | mmap) -> Iterator[Section]:
    """Return the sections by number. Raises struct.error for truncated bytes."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_bytes, entries = struct.unpack_from("<HH", elf, 0x3A)
    for index in range(entries):
        _, kind, _, address, offset, size, link, *_ = _HEADER.unpack_from(
            elf, table + index * entry_bytes
        )
        yield Section(kind, address, offset, size, link)


def _symbols(elf: bytes, table: Section, names: Section) -> Iterator[tuple[str, int, int, int]]:
    """Name, section, address and size of each function that is defined here."""
    for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
        name, info, _, section, address, size = _SYMBOL.unpack_from(elf, at)
        if info & 0xF == _FUNCTION and section and size:
            start = names.offset + name
            text = elf[start : elf.index(b"\0", start)].decode(errors="replace")
            yield text, section, address, size
