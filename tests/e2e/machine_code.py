"""The instructions inside an executable's object files, each with the extension it belongs to."""

import struct
from collections.abc import Iterator

import capstone
from capstone import x86

EXECUTABLE = 0x4
"""ELF's SHF_EXECINSTR."""

CONTROL_FLOW = {
    *(x86.X86_GRP_BRANCH_RELATIVE, x86.X86_GRP_CALL, x86.X86_GRP_JUMP, x86.X86_GRP_MODE64),
    *(x86.X86_GRP_NOT64BITMODE, x86.X86_GRP_NOVLX, x86.X86_GRP_RET),
}

LEVEL_3 = {
    *(x86.X86_GRP_AVX, x86.X86_GRP_AVX2, x86.X86_GRP_BMI, x86.X86_GRP_BMI2, x86.X86_GRP_CMOV),
    *(x86.X86_GRP_F16C, x86.X86_GRP_FMA, x86.X86_GRP_FPU, x86.X86_GRP_MMX, x86.X86_GRP_SSE1),
    *(x86.X86_GRP_SSE2, x86.X86_GRP_SSE3, x86.X86_GRP_SSE41, x86.X86_GRP_SSE42, x86.X86_GRP_SSSE3),
}
"""What x86-64-v3 has. movbe, lzcnt, popcnt and xsave, which it also has, are in no group."""

EVEX = 0x62
"""The first byte of every AVX-512 instruction in 64-bit mode, and of no other."""

ADDRESS_PREFIXES = b"\x64\x65\x67"

_disassembler = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
_disassembler.detail = True


def code(elf: bytes) -> Iterator[bytes]:
    """The executable sections of a 64-bit little-endian ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_bytes, entries = struct.unpack_from("<HH", elf, 0x3A)
    for index in range(entries):
        header = struct.unpack_from("<IIQQQQ", elf, table + index * entry_bytes)
        _, _, flags, _, offset, size = header
        if flags & EXECUTABLE and size:
            yield elf[offset : offset + size]


def instructions(elf: bytes) -> Iterator[capstone.CsInsn]:
    """Every instruction. Raises AssertionError at bytes that are none that capstone knows."""
    for section in code(elf):
        end = 0
        for instruction in _disassembler.disasm(section, 0):
            yield instruction
            end = instruction.address + instruction.size
        assert end == len(section), f"no known instruction: {section[end : end + 15].hex(' ')}"


def above_level_3(elf: bytes) -> list[str]:
    """Instructions that x86-64-v3 does not have, as text."""
    return [
        f"{instruction.mnemonic} {instruction.op_str}"
        for instruction in instructions(elf)
        if instruction.bytes.lstrip(ADDRESS_PREFIXES)[0] == EVEX
        or set(instruction.groups) - CONTROL_FLOW - LEVEL_3
    ]
