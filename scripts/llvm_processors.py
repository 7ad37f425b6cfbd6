"""Processors that jaxlib's compiler knows on x86-64, and the target files made from them.

    python scripts/llvm_processors.py list            # names that can be compiled for
    python scripts/llvm_processors.py show znver4     # the features LLVM says it has
    python scripts/llvm_processors.py write           # targets/cpu-*.toml of the named processors
    python scripts/llvm_processors.py check           # that isa.CPUS and those files agree with it

LLVM expands a processor's name into features inside the code generator, and no interface of jaxlib
tells which. The tables it looks them up in have symbols in libjax_common.so, and are read there.
Their layout is that of jaxlib 0.12.0 and 0.12.0.1:

    X86FeatureKVStorage  entries of 64 bytes: u16 name, u16 description (both relative to the
                         entry), u32 number, 448 bits of implied features
    X86SubTypeKVStorage  entries of 120 bytes: u16 name (relative to the entry), 6 bytes, 448 bits
                         of features, 448 bits of tuning; then aliases, then the names
"""

from __future__ import annotations

import argparse
import mmap
import struct
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from aotc.compile.binary import elf
from aotc.compile.cpu import cpu_isa

TARGETS = Path(__file__).parents[1] / "targets"

FEATURES_SYMBOL = b"_ZN4llvm19X86FeatureKVStorageE"
PROCESSORS_SYMBOL = b"_ZN4llvm19X86SubTypeKVStorageE"
FEATURE_BYTES, PROCESSOR_BYTES, BITSET_BYTES = 64, 120, 56

NAMED = {
    "haswell": "Intel Haswell (2013) and later: AVX2, scheduled for Haswell",
    "skylake-avx512": "Intel Xeon Scalable since Skylake-SP (2017): AVX-512",
    "icelake-server": "Intel Xeon since Ice Lake-SP (2021): AVX-512 with VNNI, VBMI and IFMA",
    "sapphirerapids": "Intel Xeon since Sapphire Rapids (2023): AVX-512 with BF16 and FP16",
    "znver4": "AMD EPYC since Genoa, Ryzen since 7000 (Zen 4, 2022): AVX-512 with BF16",
    "znver5": "AMD EPYC since Turin, Ryzen since 9000 (Zen 5, 2024): AVX-512 with BF16, AVX-VNNI",
}
"""Processors that have a target file made here, with its description."""

HEAD = """\
# Made by scripts/llvm_processors.py from LLVM's table of processors; `check` there compares.
schema = 1
name = "cpu-{name}"
description = "{description}"
platform = "cpu"
triple = "x86_64-unknown-linux-gnu"
cpu = "{name}"
features = [
{features}
]
{tuning}{threads}
"""

THREADS = """\
# XLA cuts loops for this many threads at build, whatever the loading host has. Eight suits the
# usual server instance; fewer cores run the same slices one after the other.
threads = 8"""

AVX512_TUNING = """\
# XLA adds these to all code for AVX-512: single loads and stores are faster there.
tuning = ["prefer-no-gather", "prefer-no-scatter"]
"""


class UnknownLayoutError(Exception):
    """The library has no such tables, or not in the layout above."""


def processors(library: Path) -> dict[str, frozenset[str]]:
    """LLVM's features of every processor it knows, those that others imply included.

    Raises UnknownLayoutError.
    """
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        tables = _symbols(image, (FEATURES_SYMBOL, PROCESSORS_SYMBOL))
    numbers, implied = _features(tables[FEATURES_SYMBOL])
    names = {number: name for name, number in numbers.items()}

    def closure(bits: int) -> frozenset[str]:
        known: set[int] = set()
        left = _members(bits)
        while left:
            number = left.pop()
            if number not in known:
                known.add(number)
                left |= _members(implied[number])
        return frozenset(names[number] for number in known)

    return {name: closure(bits) for name, bits in _subtypes(tables[PROCESSORS_SYMBOL]).items()}


def library_of_jaxlib() -> Path:
    """The shared library that holds XLA and LLVM."""
    spec = find_spec("jaxlib")
    if spec is None or spec.origin is None:
        raise UnknownLayoutError("jaxlib is not installed")
    return Path(spec.origin).parent / "libjax_common.so"


def choices(known: dict[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the processors that a target may name.

    They are those of level 2 or higher, below which no jaxlib runs, and `x86-64`, for code
    scheduled for none of them.
    """
    level_2 = known["x86-64-v2"] & cpu_isa.FEATURES
    found = {name for name, features in known.items() if level_2 <= features}
    return tuple(sorted({"x86-64", *found}))


def target_features(features: frozenset[str]) -> list[str]:
    """Return the features that a target requires, as far as a host's description names them."""
    return sorted((features & cpu_isa.FEATURES) - cpu_isa.UNUSED)


def target_text(name: str, features: frozenset[str]) -> str:
    """The target file of a named processor."""
    listed = target_features(features)
    lines, line = [], "   "
    for quoted in (f'"{feature}",' for feature in listed):
        if len(line) + 1 + len(quoted) > 100:
            lines.append(line)
            line = "   "
        line = f"{line} {quoted}"
    return HEAD.format(
        name=name,
        description=NAMED[name],
        features="\n".join([*lines, line]),
        tuning=AVX512_TUNING if "avx512f" in listed else "",
        threads=THREADS,
    )


def differences(known: dict[str, frozenset[str]]) -> list[str]:
    """List where isa.CPUS and the target files differ from what the compiler knows."""
    found = []
    if choices(known) != cpu_isa.CPUS:
        wrong = sorted(set(cpu_isa.CPUS) ^ set(choices(known)))
        found.append(f"isa.CPUS: {', '.join(wrong) or 'not sorted'}")
    for path in sorted(TARGETS.glob("cpu-*.toml")):
        document = tomllib.loads(path.read_text())
        if not document["triple"].startswith("x86_64"):
            continue  # jaxlib's compiler has no code for it
        features = known.get(document["cpu"])
        expected = target_features(features) if features else None
        if document["features"] != expected:
            odd = sorted(set(document["features"]) ^ set(expected or ()))
            found.append(f"{path.name}: {', '.join(odd) or 'not sorted'}")
    for name in NAMED:
        path = TARGETS / f"cpu-{name}.toml"
        if not path.exists() or path.read_text() != target_text(name, known[name]):
            found.append(f"{path.name}: not as `write` writes it")
    return found


def _symbols(image: mmap.mmap, wanted: tuple[bytes, ...]) -> dict[bytes, bytes]:
    """The bytes of these data symbols of an ELF file with 64 bits."""
    sections = list(elf.sections_of(image))
    found: dict[bytes, bytes] = {}
    for section in sections:
        if section.kind != elf.SYMBOL_TABLE:
            continue
        strings = sections[section.link]
        layout = [
            ("name", "<u4"), ("info", "u1"), ("other", "u1"),
            ("section", "<u2"), ("value", "<u8"), ("size", "<u8"),
        ]  # fmt: skip
        symbols = np.frombuffer(
            image[section.offset : section.offset + section.size], np.dtype(layout)
        )
        for name in wanted:
            at = image.find(b"\0" + name + b"\0", strings.offset, strings.offset + strings.size)
            if at < 0:
                continue
            (match,) = symbols[symbols["name"] == at + 1 - strings.offset]
            home = sections[match["section"]]
            start = int(match["value"]) - home.address + home.offset
            found[name] = image[start : start + int(match["size"])]
    if missing := [name.decode() for name in wanted if name not in found]:
        raise UnknownLayoutError(f"no symbol {', '.join(missing)}")
    return found


def _features(table: bytes) -> tuple[dict[str, int], dict[int, int]]:
    """Numbers of all features by name, and the bits of what each implies."""
    numbers: dict[str, int] = {}
    implied: dict[int, int] = {}
    end = len(table)
    for at in range(0, len(table), FEATURE_BYTES):
        if at >= end:
            break
        name, _, number = struct.unpack_from("<HHI", table, at)
        end = min(end, (at + name) // FEATURE_BYTES * FEATURE_BYTES)
        numbers[_text(table, at + name)] = number
        implied[number] = _bits(table, at + 8)
    if not {"64bit", "avx2", "avx512f"} <= numbers.keys() or len(implied) != len(numbers):
        raise UnknownLayoutError("the table of features is laid out in another way")
    return numbers, implied


def _subtypes(table: bytes) -> dict[str, int]:
    """The bits of the features of each processor; aliases are left out."""
    found: dict[str, int] = {}
    last = ""
    for at in range(0, len(table) - PROCESSOR_BYTES, PROCESSOR_BYTES):
        (name,) = struct.unpack_from("<H", table, at)
        text = _text(table, at + name) if at + name < len(table) else ""
        if not text.isprintable() or text <= last:  # they are sorted; aliases follow
            break
        found[text] = _bits(table, at + 8)
        last = text
    if not {"haswell", "x86-64-v4", "znver4"} <= found.keys():
        raise UnknownLayoutError("the table of processors is laid out in another way")
    return found


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode("ascii", "replace")


def _bits(table: bytes, at: int) -> int:
    return int.from_bytes(table[at : at + BITSET_BYTES], "little")


def _members(bits: int) -> set[int]:
    return {number for number in range(bits.bit_length()) if bits >> number & 1}


def main() -> int:
    parser = argparse.ArgumentParser(description="LLVM's x86-64 processors in the installed jaxlib")
    parser.add_argument("action", choices=["list", "show", "write", "check"])
    parser.add_argument("processor", nargs="*")
    options = parser.parse_args()
    known = processors(library_of_jaxlib())
    match options.action:
        case "list":
            print("\n".join(choices(known)))
        case "show":
            for name in options.processor:
                print(f"{name}: {' '.join(sorted(known[name] & cpu_isa.FEATURES))}")
        case "write":
            for name in NAMED:
                (TARGETS / f"cpu-{name}.toml").write_text(target_text(name, known[name]))
        case "check":
            found = differences(known)
            sys.stderr.writelines(f"{line}\n" for line in found)
            return 1 if found else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
