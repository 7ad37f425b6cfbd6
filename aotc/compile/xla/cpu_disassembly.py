"""Machine code as assembly, by capstone (`aotc[explain]`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aotc.base.errors import refusal
from aotc.compile.binary import elf


def disassemble(objects: Iterable[bytes]) -> Iterator[str]:
    """The assembly of every function in these ELF objects, sorted by name. Bytes that are not an
    instruction are shown as `.byte`.

    Raises UsageError (AOTC-E057) without capstone; ValueError for bytes that are no ELF file.
    """
    try:
        import capstone
    except ImportError as error:
        cause = "capstone-is-not-installed"
        raise refusal("AOTC-E057", "--stage asm", "", cause=cause) from error
    machines = {
        elf.X86_64: (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        elf.AARCH64: (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    }
    functions = (function for data in objects for function in elf.functions(data))
    for function in sorted(functions, key=lambda f: (f.name, f.code)):
        yield f"{function.name}:  {len(function.code)} bytes"
        if function.machine not in machines:
            yield f"    instructions of ELF machine {function.machine}, which are not known here"
            continue
        engine = capstone.Cs(*machines[function.machine])
        engine.skipdata = True
        for address, _, mnemonic, operands in engine.disasm_lite(function.code, function.address):
            yield f"    {address:6x}  {mnemonic} {operands}".rstrip()
