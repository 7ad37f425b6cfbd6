"""Processor names and features: what may be asked for, and which of them a host must have."""

from __future__ import annotations

from collections.abc import Iterable

CPUS = (
    "x86-64",
    "x86-64-v2",
    "x86-64-v3",
    "x86-64-v4",
    "nehalem",
    "haswell",
    "skylake-avx512",
    "sapphirerapids",
    "graniterapids",
    "znver3",
    "znver4",
    "znver5",
)
"""Names that LLVM in jaxlib knows; an unknown one ends the compiler with a segmentation fault."""

_FEATURE_NAMES = """
    64bit adx aes amx-bf16 amx-complex amx-fp16 amx-int8 amx-tile avx avx2 avx512bf16
    avx512bitalg avx512bw avx512cd avx512dq avx512f avx512fp16 avx512ifma avx512vbmi avx512vbmi2
    avx512vl avx512vnni avx512vp2intersect avx512vpopcntdq avxifma avxneconvert avxvnni
    avxvnniint16 avxvnniint8 bmi bmi2 cldemote clflushopt clwb clzero cmov cmpccxadd crc32 cx16
    cx8 enqcmd f16c fma fma4 fsgsbase fxsr gfni hreset invpcid kl lwp lzcnt mmx movbe movdir64b
    movdiri mwaitx pclmul pconfig pku popcnt prefetchi prfchw ptwrite rdpid rdpru rdrnd rdseed
    rtm sahf serialize sgx sha sha512 shstk sm3 sm4 sse sse2 sse3 sse4.1 sse4.2 sse4a ssse3 tbm
    tsxldtrk uintr usermsr vaes vpclmulqdq waitpkg wbnoinvd widekl xop xsave xsavec xsaveopt
    xsaves
"""

FEATURES = frozenset(_FEATURE_NAMES.split())
"""LLVM's names of x86-64 features; LLVM ignores an unknown one without an error."""

_TUNING_PREFIXES = ("prefer-", "fast-", "slow-", "false-deps-", "tuning-")
_TUNING = frozenset({"idivq-to-divl", "macrofusion", "branchfusion", "no-bypass-delay"})


def is_tuning(feature: str) -> bool:
    """Whether a feature only shapes code generation: no host lacks `prefer-no-gather`."""
    return feature in _TUNING or feature.startswith(_TUNING_PREFIXES)


def split(features: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Features as XLA writes them ("+avx2", "-rtm") to sorted (required, tuning) names."""
    present = sorted({name[1:] for name in features if name.startswith("+")})
    required = tuple(name for name in present if not is_tuning(name))
    return required, tuple(name for name in present if is_tuning(name))


def llvm(required: Iterable[str], tuning: Iterable[str]) -> str:
    """The feature string for LLVM: "+64bit,+avx,…"."""
    return ",".join(f"+{name}" for name in sorted({*required, *tuning}))
