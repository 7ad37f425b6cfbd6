"""Name and features of a processor as the system tells them, in the words of LLVM."""

import os
import platform
import struct
from pathlib import Path

import pytest

from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.system.cpu_features import _ARM_NAMES, describe_machine, processor, processor_here
from aotc_runtime.system.host_probe import Machine

X86 = """processor\t: 0
model name\t: A Processor
flags\t\t: fpu lm pni sse4_1 sse4_2 abm bmi1 avx avx2 avx512_vnni sha_ni user_shstk hypervisor

processor\t: 1
model name\t: Another
flags\t\t: gfni
"""
ARM = """processor\t: 0
Features\t: fp asimd evtstrm {more}atomics crc32
"""


def test_features_of_the_first_processor_are_in_llvms_spelling() -> None:
    name, features = processor(X86)
    assert name == "A Processor"
    assert features == {"64bit", "sse3", "sse4.1", "sse4.2", "crc32", "lzcnt", "bmi", "avx"} | {
        "avx2",
        "avx512vnni",
        "sha",
        "shstk",
    }


@pytest.mark.parametrize(
    ("more", "crypto"), [("", set()), ("aes ", set()), ("aes pmull sha1 sha2 ", {"aes", "sha2"})]
)
def test_those_of_arm_have_cryptography_only_as_a_whole(more: str, crypto: set[str]) -> None:
    name, features = processor(ARM.format(more=more), "aarch64")
    assert name == "aarch64"
    assert features == {"fp-armv8", "neon", "lse", "crc"} | crypto


def test_of_a_system_that_tells_nothing_there_are_none() -> None:
    assert processor("") == (os.uname().machine, frozenset())


def auxiliary(*pairs: tuple[int, int]) -> bytes:
    """/proc/self/auxv of a process of 64 bits."""
    return b"".join(struct.pack("=QQ", *pair) for pair in (*pairs, (0, 0)))


# As qemu 10.0 gives them; those of a Neoverse V1 are those of a Graviton3.
NEOVERSE_N1 = auxiliary((6, 4096), (16, 0x119FFB), (17, 100), (26, 0))
MAX = auxiliary((16, 0xEFFFFFFB), (26, 0x18007FC77FFF))


def test_on_arm_the_kernel_itself_is_asked_before_what_an_emulators_host_says() -> None:
    name, features = processor(X86, "aarch64", NEOVERSE_N1)
    assert name == "aarch64"
    assert features == {"fp-armv8", "neon", "aes", "sha2", "crc", "lse", "fullfp16"} | {
        "rdm",
        "rcpc",
        "dotprod",
    }
    _, every = processor("", "aarch64", MAX)
    assert every == set(_ARM_NAMES.values()) | {"aes", "sha2"}


@pytest.mark.parametrize("told", [b"", auxiliary(), auxiliary((6, 4096)), b"\x10"])
def test_where_the_kernel_does_not_say_the_list_for_people_counts(told: bytes) -> None:
    assert processor(ARM.format(more=""), "aarch64", told)[1] == {"fp-armv8", "neon", "lse", "crc"}
    assert processor(X86, "aarch64", told)[1] == frozenset()


@pytest.mark.parametrize(
    ("implementer", "part", "name"),
    [
        ("0x41", "0xd0c", "Neoverse N1"),
        ("0x41", "0xd4f", "Neoverse V2"),
        ("0x61", "0x022", "aarch64 processor 0x61/0x022"),
        ("0x41", "", "aarch64"),
    ],
)
def test_arm_processors_are_named_by_their_numbers(implementer: str, part: str, name: str) -> None:
    cpuinfo = f"Features\t: fp\nCPU implementer\t: {implementer}\nCPU part\t: {part}\n"
    assert processor(cpuinfo, "aarch64")[0] == name


def test_an_engines_word_on_arm_is_replaced_by_the_systems() -> None:
    seen = Machine("aarch64", "neoverse-n1", frozenset({"lse", "rand"}), "cpu", "0.12.0.1", 2)
    found = describe_machine(seen)
    assert (found.cpu, found.features) == processor_here("aarch64")
    assert (found.architecture, found.jaxlib, found.devices) == ("aarch64", "0.12.0.1", 2)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM has another table")
def test_the_system_and_jaxlib_agree_on_this_host() -> None:
    _, features = processor(Path("/proc/cpuinfo").read_text("utf-8"))
    asked = detect().isa
    preferences = {name for name in asked if name.startswith("prefer-")}
    # Whether there is a shadow stack depends on more than the processor; Linux names neither of
    # the other two.
    untold = {"shstk", "avx10.1", "prefetchi"}
    assert features - untold == asked - preferences - untold
