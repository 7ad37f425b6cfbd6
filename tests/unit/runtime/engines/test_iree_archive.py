"""Archives that are handed to IREE: whole modules for this architecture.

They are written here by the format's description alone; `tests/engines` has those of IREE's
compiler.
"""

import struct
import zlib
from collections.abc import Sequence

import pytest

from aotc_runtime.engines.iree.iree_archive import MACHINES, require_module

X86, ARM = 62, 183
CODE = b"the virtual machine's code"


def library(machine: int = X86, magic: bytes = b"\x7fELF", bits: int = 2, order: int = 1) -> bytes:
    """The begin of an ELF."""
    return struct.pack("<4sBBBxQHH", magic, bits, order, 1, 0, 3, machine) + bytes(100)


def module(
    members: Sequence[tuple[str, bytes]] = (("module.fb", CODE), ("x_embedded_elf.so", library())),
    *,
    method: int = 0,
    kind: int = 1,
    stored: int = 0,
    directory_at: int | None = None,
) -> bytes:
    """An archive as IREE's compiler writes it. stored: bytes that its members claim to have more in
    the archive.
    """
    data, directory = bytearray(), bytearray()
    for name, contents in members:
        named, local, size = name.encode(), len(data), len(contents)
        sizes = (0xFFFFFFFF, 0xFFFFFFFF)
        head = (method, 0, 33, zlib.crc32(contents), *sizes, len(named))
        data += struct.pack("<4sHHHHHLLLHH", b"PK\3\4", 45, 0, *head, 20) + named
        data += struct.pack("<HHQQ", 1, 16, size, size) + contents + bytes(-len(contents) % 4)
        directory += struct.pack(
            "<4sHHHHHHLLLHHHHHLL", b"PK\1\2", 45, 45, 0, *head, 28, 0, 0, 0, 0, 0xFFFFFFFF
        )
        directory += named + struct.pack("<HHQQQ", kind, 24, size, size + stored, local)
    at, count = len(data), len(members)
    data += directory
    end = len(data)
    start = at if directory_at is None else directory_at
    data += struct.pack(
        "<4sQHHLLQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), start
    )
    data += struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    data += struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, count, count, 0, 0xFFFFFFFF, 0)
    return bytes(data)


def refused(data: bytes, architecture: str = "x86_64") -> str:
    """Return why it is no module for the architecture; "" if it is one."""
    try:
        require_module(memoryview(data), architecture)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("architecture", "machine"), MACHINES.items())
def test_a_whole_module_is_taken_where_its_code_runs(architecture: str, machine: int) -> None:
    data = module([("module.fb", CODE), ("a.so", library(machine)), ("b.so", library(machine))])
    assert refused(data, architecture) == ""


def test_a_module_may_have_large_constants_beside_its_code() -> None:
    members = [("module.fb", CODE), ("_const.bin", bytes(80)), ("a.so", library())]
    assert refused(module(members)) == ""
    assert refused(module(members[1:])) == "an archive that is no module"


def test_a_module_without_code_for_a_processor_is_taken_anywhere() -> None:
    assert refused(module([("module.fb", CODE)]), "riscv64") == ""


@pytest.mark.parametrize(
    ("machine", "architecture", "told"),
    [
        (ARM, "x86_64", "code for aarch64"),
        (X86, "aarch64", "code for x86_64"),
        (243, "x86_64", "code for machine 243 of ELF"),
        (X86, "riscv64", "code for x86_64"),
    ],
)
def test_code_of_another_architecture_is_told(machine: int, architecture: str, told: str) -> None:
    foreign = [("module.fb", CODE), ("b.so", library(machine))]
    assert refused(module(foreign), architecture) == told
    # One among several is enough.
    good = library(MACHINES.get(architecture, X86))
    if architecture in MACHINES:
        assert refused(module([*foreign, ("a.so", good)]), architecture) == told


def test_a_module_that_ends_anywhere_else_is_refused() -> None:
    data = module()
    assert all(refused(data[:size]) for size in range(len(data)))
    assert refused(data[:-1]) == "a module that is cut"
    assert refused(data + b"\0") == "a module that is cut"


def test_every_byte_of_its_contents_counts() -> None:
    data = module()
    for contents in (CODE, library()):
        start = data.index(contents)
        for at in range(start, start + len(contents)):
            damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            assert refused(damaged) == "a module that is damaged"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (module([("a.so", library())]), "an archive that is no module"),
        (module([("module.fb", CODE), ("module.fb", CODE)]), "an archive that is no module"),
        (module([("module.fb", CODE), ("other", b"")]), "an archive that is no module"),
        (module(method=8), "a module that is damaged"),
        (module(kind=2), "a module that is damaged"),
        (module(stored=1), "a module that is damaged"),
        (module(directory_at=2**64 - 1), "a module that is cut"),
        (module([("module.fb", CODE), ("a.so", b"\x7fELF")]), "a module that is cut"),
        *(
            (
                module([("module.fb", CODE), ("a.so", library(**other))]),
                "a module whose code is no library of 64 bits",
            )
            for other in ({"magic": b"\x7fELG"}, {"bits": 1}, {"order": 2})
        ),
    ],
)
def test_an_archive_of_something_else_is_refused(data: bytes, told: str) -> None:
    assert refused(data) == told


@pytest.mark.parametrize("mark", [b"PK\5\6", b"PK\6\7"])
def test_an_archive_without_its_end_is_cut(mark: bytes) -> None:
    data = module()
    at = data.rindex(mark)
    assert refused(data[:at] + b"PK\0\0" + data[at + 4 :]) == "a module that is cut"


def test_an_archive_without_its_directory_is_damaged() -> None:
    data = module()
    at = data.index(b"PK\6\6")
    assert refused(data[:at] + b"PK\6\5" + data[at + 4 :]) == "a module that is damaged"
    for mark in (b"PK\1\2", b"PK\3\4"):
        at = data.rindex(mark)
        assert refused(data[:at] + b"PK\0\0" + data[at + 4 :]) == "a module that is damaged"
