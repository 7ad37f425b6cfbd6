"""Name and features of this host's processor where no engine is installed that would tell them.

From /proc/cpuinfo, in which Linux lists what the operating system lets programs use. On Arm from
what the kernel tells every process when it starts: it may write the features of 32-bit programs
into /proc/cpuinfo, and emulators older than qemu 8.2 show that of their own host.
"""

import os
import struct

from msgspec.structs import replace

from aotc_runtime.schema.host_facts import Machine

ARM = "aarch64"

_X86_NAMES = {
    "3dnowprefetch": "prfchw",
    "abm": "lzcnt",
    "amx_bf16": "amx-bf16",
    "amx_complex": "amx-complex",
    "amx_fp16": "amx-fp16",
    "amx_int8": "amx-int8",
    "amx_tile": "amx-tile",
    "avx512_bf16": "avx512bf16",
    "avx512_bitalg": "avx512bitalg",
    "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_vp2intersect": "avx512vp2intersect",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx_ifma": "avxifma",
    "avx_ne_convert": "avxneconvert",
    "avx_vnni": "avxvnni",
    "avx_vnni_int16": "avxvnniint16",
    "avx_vnni_int8": "avxvnniint8",
    "bmi1": "bmi",
    "lahf_lm": "sahf",
    "lm": "64bit",
    "pclmulqdq": "pclmul",
    "pni": "sse3",
    "rdrand": "rdrnd",
    "sha_ni": "sha",
    "sse4_1": "sse4.1",
    "user_shstk": "shstk",
}
_X86_SAME = frozenset(
    """
    adx aes avx avx2 avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl bmi2 cldemote
    clflushopt clwb clzero cmov cx16 cx8 enqcmd f16c fma fma4 fsgsbase fxsr gfni invpcid lwp mmx
    movbe movdir64b movdiri mwaitx pconfig pku popcnt ptwrite rdpid rdpru rdseed rtm serialize
    sha512 sm3 sm4 sse sse2 sse4a ssse3 tbm tsxldtrk uintr vaes vpclmulqdq waitpkg wbnoinvd xop
    xsave xsavec xsaveopt xsaves
    """.split()  # noqa: SIM905 - one each would be fifty lines
)
_ARM_NAMES = {
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdfhm": "fp16fml",
    "asimdhp": "fullfp16",
    "asimdrdm": "rdm",
    "atomics": "lse",
    "bf16": "bf16",
    "crc32": "crc",
    "fcma": "complxnum",
    "fp": "fp-armv8",
    "i8mm": "i8mm",
    "jscvt": "jsconv",
    "lrcpc": "rcpc",
    "sha3": "sha3",
    "sm4": "sm4",
    "sve": "sve",
    "sve2": "sve2",
    "sveaes": "sve-aes",
    "svebitperm": "sve2-bitperm",
    "svesha3": "sve-sha3",
    "svesm4": "sve-sm4",
}
_ARM_CAPABILITIES = {
    16: """fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma
    lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm""",
    26: "dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svef32mm "
    "svef64mm svebf16 i8mm bf16",
}
"""AT_HWCAP and AT_HWCAP2: names of /proc/cpuinfo by bit, as in Linux's asm/hwcap.h for arm64."""

_ARM_PARTS = {
    ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd49"): "Neoverse N2",
    ("0x41", "0xd4f"): "Neoverse V2",
}
"""By implementer and part, the processors of servers; Linux has no names of them."""

_ARM_CRYPTO = frozenset({"aes", "pmull", "sha1", "sha2"})


def describe_machine(found: Machine) -> Machine:
    """Return an engine's processor with the name and features that the system reports.

    On Arm, LLVM in jaxlib 0.12.0.1 detects only eight features.
    """
    cpu, features = processor_here(found.architecture)
    return replace(found, cpu=cpu, features=features)


def machine() -> Machine:
    """Return this host's processor as the system describes it."""
    architecture = os.uname().machine
    return Machine(architecture, *processor_here(architecture))


def processor_here(architecture: str) -> tuple[str, frozenset[str]]:
    """Return this host's processor; `architecture` is from `os.uname`."""
    cpuinfo = _read("/proc/cpuinfo").decode("utf-8", "replace")
    return processor(cpuinfo, architecture, _read("/proc/self/auxv"))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def processor(
    cpuinfo: str, architecture: str = "", auxiliary: bytes = b""
) -> tuple[str, frozenset[str]]:
    """Return the processor's name, and its features in LLVM's spelling.

    `cpuinfo` is the text of /proc/cpuinfo, `architecture` that of this process in the system's
    spelling, and `auxiliary` the bytes of /proc/self/auxv. A feature that this table lacks counts
    as missing, so that bundles which need it are rejected.
    """
    first = cpuinfo.partition("\n\n")[0]
    fields = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in first.splitlines())
    }
    name = fields.get("model name") or os.uname().machine
    if architecture == ARM:
        part = fields.get("CPU implementer", ""), fields.get("CPU part", "")
        name = _ARM_PARTS.get(part) or (f"{ARM} processor {'/'.join(part)}" if all(part) else ARM)
        flags = _arm_capabilities(auxiliary) or frozenset(fields.get("Features", "").split())
        return name, _arm_features(flags)
    return name, _x86_features(fields.get("flags", "").split())


def _x86_features(flags: list[str]) -> frozenset[str]:
    found = {
        _X86_NAMES.get(flag, flag) for flag in flags if flag in _X86_NAMES or flag in _X86_SAME
    }
    if "sse4_2" in flags:
        found |= {"sse4.2", "crc32"}
    return frozenset(found)


def _arm_capabilities(auxiliary: bytes) -> frozenset[str]:
    """Return /proc/cpuinfo's names of features from a process's auxiliary vector."""
    pairs = dict(struct.iter_unpack("=QQ", auxiliary[: len(auxiliary) // 16 * 16]))
    return frozenset(
        name
        for kind, names in _ARM_CAPABILITIES.items()
        for bit, name in enumerate(names.split())
        if pairs.get(kind, 0) >> bit & 1
    )


def _arm_features(flags: frozenset[str]) -> frozenset[str]:
    found = {_ARM_NAMES[flag] for flag in flags if flag in _ARM_NAMES}
    if flags >= _ARM_CRYPTO:
        found |= {"aes", "sha2"}
    return frozenset(found)
