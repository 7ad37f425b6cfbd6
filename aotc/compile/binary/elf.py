"""Functions of a 64-bit little-endian ELF object: their names, addresses and code; and what a
shared object asks of others.

Linux' elf(5): file header, section headers of 64 bytes, symbols of 24 bytes in `.symtab` and
`.dynsym`, entries of 16 bytes in `.dynamic`.
"""

from __future__ import annotations

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

SYMBOL_TABLE, _DYNAMIC, _DYNAMIC_SYMBOLS = 2, 6, 11
_NEEDED = 1
_FUNCTION = 2
_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ENTRY = struct.Struct("<qQ")


@dataclass(frozen=True, slots=True)
class Function:
    """machine: the ELF number of its instruction set.  address: within its section, which `code`
    begins at.
    """

    name: str
    machine: int
    address: int
    code: bytes


@dataclass(frozen=True, slots=True)
class Section:
    """kind: sh_type.  address: in memory.  offset: in the file.  link: the section with names."""

    kind: int
    address: int
    offset: int
    size: int
    link: int


def functions(elf: bytes) -> Iterator[Function]:
    """The functions of an object file, by address.

    Raises ValueError for bytes that are none, or whose tables, names or functions overlap many
    times: together they would be any multiple of the file.
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
    """The sections, in the order of their numbers. Raises struct.error for bytes that end early."""
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
            yield _text(elf, names, name), section, address, size


@dataclass(frozen=True, slots=True)
class Interface:
    """What a shared object has to do with others. libraries: it needs, by name.  asked: symbols
    that others have to define.  offered: those that it defines.
    """

    libraries: tuple[str, ...]
    asked: frozenset[str]
    offered: frozenset[str]


def interface(elf: bytes) -> Interface:
    """The interface of a shared object.

    Raises ValueError for bytes that are none, or that do not say.
    """
    if not elf.startswith(MAGIC):
        raise ValueError("no 64-bit little-endian ELF file")
    libraries: list[str] = []
    asked: set[str] = set()
    offered: set[str] = set()
    try:
        sections = list(sections_of(elf))
        for table in sections:
            end = table.offset + table.size
            if table.kind == _DYNAMIC_SYMBOLS:
                for at in range(table.offset, end, _SYMBOL.size):
                    name, _, _, section, _, _ = _SYMBOL.unpack_from(elf, at)
                    (offered if section else asked).add(_text(elf, sections[table.link], name))
            elif table.kind == _DYNAMIC:
                for at in range(table.offset, end, _ENTRY.size):
                    tag, value = _ENTRY.unpack_from(elf, at)
                    if tag == _NEEDED:
                        libraries.append(_text(elf, sections[table.link], value))
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise ValueError(f"damaged ELF file: {error}") from error
    if not asked:
        raise ValueError("no table of dynamic symbols")
    return Interface(tuple(libraries), frozenset(asked - {""}), frozenset(offered))


def _text(elf: bytes, names: Section, offset: int) -> str:
    start = names.offset + offset
    return elf[start : elf.index(b"\0", start)].decode(errors="replace")
