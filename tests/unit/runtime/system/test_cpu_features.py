"""Name and features of a processor as the system tells them, in the words of LLVM."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from aotc_runtime.engines.registry import detect
from aotc_runtime.system.cpu_features import processor

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
    name, features = processor(ARM.format(more=more))
    assert name == os.uname().machine
    assert features == {"fp-armv8", "neon", "lse", "crc"} | crypto


def test_of_a_system_that_tells_nothing_there_are_none() -> None:
    assert processor("") == (os.uname().machine, frozenset())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM has another table")
def test_the_system_and_jaxlib_agree_on_this_host() -> None:
    _, features = processor(Path("/proc/cpuinfo").read_text("utf-8"))
    asked = detect().isa
    preferences = {name for name in asked if name.startswith("prefer-")}
    # Whether there is a shadow stack depends on more than the processor.
    assert features - {"shstk"} == asked - preferences - {"shstk"}
