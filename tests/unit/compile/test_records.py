"""Executables that plugins wrote are taken apart; what only looks like one is refused."""

import random
import struct
from collections import Counter
from contextlib import suppress

import cramjam
import pytest

from aotc.compile.binary import elf, protobuf
from aotc.compile.binary.protobuf import Field
from aotc.compile.xla import executable_records as records
from aotc.compile.xla import xla_objects
from aotc.compile.xla.executable_records import SIGNATURE, messages
from aotc.engines.cuda.cuda_worker import MACHINE, cubins
from aotc_runtime.formats.protobuf_wire import BYTES, write_varint

BLOCK, HEADER = 1 << 16, 24
SIGNED = struct.pack("<QQQQQ", 0, 0, 0, ord("s"), 0)


def varints(*values: int) -> bytes:
    return b"".join(map(write_varint, values))


def compressed(data: bytes, *, snappy: bool) -> bytes:
    if not snappy:
        return data
    return varints(len(data)) + bytes(cramjam.snappy.compress_raw(data))


def chunk(*contents: bytes, snappy: bool, kind: str = "r") -> bytes:
    """A simple chunk of these records."""
    sizes = compressed(varints(*map(len, contents)), snappy=snappy)
    values = compressed(b"".join(contents), snappy=snappy)
    data = (b"s" if snappy else b"\0") + varints(len(sizes)) + sizes + values
    decoded = sum(map(len, contents))
    return struct.pack("<QQQQQ", 0, len(data), 0, ord(kind) | len(contents) << 8, decoded) + data


def riegeli(*chunks: bytes) -> bytes:
    """A file of these chunks, with a header in front of each block."""
    joined, room = SIGNED + b"".join(chunks), BLOCK - HEADER
    blocks = [joined[at : at + room] for at in range(0, len(joined), room)]
    return SIGNATURE + blocks[0] + b"".join(bytes(HEADER) + block for block in blocks[1:])


def executable(data: bytes) -> bytes:
    return varints(3) + b"hdr" + data


def module(name: bytes) -> bytes:
    """An HloModuleProto with its configuration, one level deep."""
    hlo = protobuf.serialize(
        [Field(1, BYTES, name), Field(2, BYTES, b"main"), Field(3, BYTES, b"")]
    )
    pair = protobuf.serialize([Field(1, BYTES, hlo), Field(2, BYTES, b"")])
    return protobuf.serialize([Field(7, BYTES, pair)])


@pytest.mark.parametrize("snappy", [False, True])
def test_a_module_is_found_in_a_file_within_a_file(snappy: bool) -> None:
    inner = riegeli(chunk(b"manifest", b"", module(b"aotc"), snappy=snappy))
    outer = executable(riegeli(chunk(b"first", snappy=False), chunk(inner, b"x", snappy=snappy)))
    assert list(messages(outer)) == [b"first", b"manifest", b"", module(b"aotc"), b"x"]


@pytest.mark.parametrize("snappy", [False, True])
def test_chunks_go_on_behind_the_headers_of_blocks(snappy: bool) -> None:
    large = random.Random(0).randbytes(3 * BLOCK + 17)
    data = executable(riegeli(chunk(b"a", large, snappy=snappy), chunk(b"z", snappy=snappy)))
    assert list(messages(data)) == [b"a", large, b"z"]


def test_padding_is_nothing_and_other_files_are_one_message() -> None:
    padding = chunk(snappy=False, kind="p")
    assert list(messages(executable(riegeli(padding, chunk(b"a", snappy=False))))) == [b"a"]
    assert list(messages(executable(b"anything"))) == [b"anything"]


def head(size: int, records: int) -> bytes:
    """Of a simple chunk."""
    return struct.pack("<QQQQQ", 0, size, 0, ord("r") | records << 8, 0)


GOOD = riegeli(chunk(b"abc", b"defg", snappy=True))
SIZES = compressed(varints(9), snappy=True)
CLAIMED = b"s" + varints(len(SIZES)) + SIZES + varints(2**32 - 1, 2**32 - 1) + bytes(9)


@pytest.mark.parametrize(
    ("damaged", "found"),
    [
        (GOOD[:-1], "a chunk beyond the end"),
        (GOOD[: HEADER + 60], "a chunk that is cut short"),
        (riegeli(chunk(b"a", snappy=False, kind="t")), "a chunk of type b't'"),
        (riegeli(head(0, 1)), "an empty chunk"),
        (riegeli(head(2**63, 1)), "a chunk beyond the end"),
        (riegeli(head(4, 9), b"\0\1\1a"), "ends within a number"),
        (riegeli(head(4, 1), b"\0\1\2a"), "a record beyond the end"),
        (riegeli(head(4, 1), b"z\1\1a"), "compression 122"),
        (riegeli(head(len(CLAIMED), 1), CLAIMED), "many times as many bytes"),
    ],
)
def test_a_damaged_file_is_no_executable(damaged: bytes, found: str) -> None:
    with pytest.raises(ValueError, match=found):
        list(messages(executable(damaged)))


def test_whatever_is_changed_is_read_or_refused() -> None:
    data = executable(riegeli(chunk(module(b"aotc"), b"defg" * 40, snappy=True)))
    choose = random.Random(1)
    for _ in range(2000):
        at = choose.randrange(len(data))
        changed = data[:at] + bytes([choose.randrange(256)]) + data[at + 1 :]
        for each in (changed, changed[: choose.randrange(len(data) + 1)]):
            with suppress(ValueError):
                list(map(xla_objects.assignment_of_module, messages(each)))


def test_files_within_files_without_end_are_nothing() -> None:
    data = b"leaf"
    for _ in range(records._DEPTH_MAX + 1):
        data = riegeli(chunk(data, snappy=False))
    assert list(messages(executable(data))) == []


def test_kernels_for_cuda_are_found_at_whatever_depth_and_others_are_not() -> None:
    def file(machine: int) -> bytes:
        return elf.MAGIC.ljust(0x12, b"\0") + struct.pack("<H", machine) + bytes(40)

    nested = protobuf.serialize([Field(3, BYTES, protobuf.serialize([Field(1, BYTES, file(190))]))])
    message = protobuf.serialize(
        [Field(13, BYTES, nested), Field(13, BYTES, file(elf.X86_64)), Field(1, BYTES, b"text")]
    )
    assert MACHINE == 190 and list(cubins(message)) == [file(190)]
    assert list(cubins(b"\xff")) == []


def test_files_in_files_that_become_many_times_as_much_are_refused() -> None:
    bomb = bytes(2**20)
    for _ in range(3):
        bomb = riegeli(chunk(bomb, snappy=True))
    with pytest.raises(ValueError, match="many times"):
        list(messages(executable(bomb)))


@pytest.mark.parametrize("opening", [b"\x0a", b"\x0a\x01a\x12"])
def test_messages_that_nest_without_end_are_refused(opening: bytes) -> None:
    nested = elf.MAGIC
    for _ in range(2000):
        nested = opening + write_varint(len(nested)) + nested
    assert list(cubins(nested)) == []
    with pytest.raises(xla_objects.UnknownLayoutError, match="nested"):
        xla_objects._count_thunks(Field(1, BYTES, nested), Counter())


def object_file(sections: list[tuple[int, int, int, int]], data: bytes) -> bytes:
    """An ELF file of these sections, each a kind, an offset in the data, a size and a link."""
    start = 64 + 64 * len(sections)
    head = elf.MAGIC.ljust(0x12, b"\0") + struct.pack("<H", elf.X86_64)
    head = head.ljust(0x28, b"\0") + struct.pack("<Q", 64)
    head = head.ljust(0x3A, b"\0") + struct.pack("<HH", 64, len(sections))
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, start + offset, size, link, 0, 0, 0)
        for kind, offset, size, link in sections
    )
    return head.ljust(64, b"\0") + table + data


def symbol(name: int, section: int, address: int, size: int, kind: int = 2) -> bytes:
    return struct.pack("<IBBHQQ", name, kind, 0, section, address, size)


def test_functions_are_found_and_their_aliases() -> None:
    names, code = b"\0f\0g\0".ljust(100, b"\0"), bytes(100)
    table = symbol(1, 2, 0, 100) + symbol(3, 2, 0, 100)
    sections = [(2, 200, len(table), 1), (3, 0, 100, 0), (1, 100, 100, 0)]
    found = list(elf.functions(object_file(sections, names + code + table)))
    assert [(f.name, f.code) for f in found] == [("f", code), ("g", code)]


def test_what_is_elsewhere_or_empty_or_data_is_no_function() -> None:
    names, code = b"\0f\0g\0".ljust(100, b"\0"), bytes(100)
    others = symbol(3, 0, 0, 100) + symbol(3, 2, 0, 0) + symbol(3, 2, 0, 100, kind=1)
    table = symbol(1, 2, 0, 100, kind=0x12) + others
    sections = [(2, 200, len(table), 1), (3, 0, 100, 0), (1, 100, 100, 0)]
    data = object_file(sections, names + code + table)
    assert [f.name for f in elf.functions(data)] == ["f"]
    for other in (b"", b"\x7fELF", data[:4] + b"\x01" + data[5:], b"MZ" + data):
        with pytest.raises(ValueError, match="no 64-bit little-endian ELF"):
            list(elf.functions(other))


@pytest.mark.parametrize("kind", ["code", "names", "tables"])
def test_functions_that_overlap_many_times_are_refused(kind: str) -> None:
    names, code = b"f" * 50_000 + b"\0", bytes(50_000)
    count = 1 if kind == "tables" else 1000
    size = 50_000 if kind == "code" else 1
    name = 0 if kind == "names" else 50_000
    table = symbol(name, 2, 0, size) * count + bytes(24 * 4000)
    at = len(names) + len(code)
    sections = [(2, at, len(table), 1), (3, 0, len(names), 0), (1, len(names), len(code), 0)]
    sections += [(2, at, len(table), 1)] * (60_000 if kind == "tables" else 0)
    with pytest.raises(ValueError, match="overlap"):
        list(elf.functions(object_file(sections, names + code + table)))


@pytest.mark.parametrize("far", [2**62, 2**63, 2**64 - 1])
def test_a_table_beyond_everything_is_damage(far: int) -> None:
    data = bytearray(object_file([], b""))
    data[0x28:0x30] = struct.pack("<Q", far)
    data[0x3C:0x3E] = struct.pack("<H", 3)
    with pytest.raises(ValueError, match="damaged"):
        list(elf.functions(bytes(data)))


def test_a_file_that_states_another_size_than_its_compressed_data_is_refused() -> None:
    values = bytes(5000)
    sizes = compressed(varints(len(values)), snappy=True)
    lying = varints(1) + bytes(cramjam.snappy.compress_raw(values))
    data = b"s" + varints(len(sizes)) + sizes + lying
    with pytest.raises(ValueError, match="5000, or 1"):
        list(messages(executable(riegeli(head(len(data), 1) + data))))
