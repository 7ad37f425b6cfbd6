"""Processor names and features: what may be asked for, and which of them a host must have."""

from collections.abc import Iterable

_CPU_NAMES = """
    alderlake arrowlake arrowlake-s atom_sse4_2_movbe bdver1 bdver2 bdver3 bdver4 broadwell
    btver2 c86-4g-m4 c86-4g-m7 c86-4g-m8 cannonlake cascadelake clearwaterforest cooperlake
    diamondrapids emeraldrapids goldmont goldmont_plus gracemont graniterapids graniterapids-d
    haswell icelake-client icelake-server ivybridge knl knm lunarlake meteorlake nehalem
    novalake pantherlake raptorlake rocketlake sandybridge sapphirerapids sierraforest
    silvermont skylake skylake-avx512 tigerlake tremont westmere x86-64 x86-64-v2 x86-64-v3
    x86-64-v4 znver1 znver2 znver3 znver4 znver5 znver6
"""

CPUS = tuple(_CPU_NAMES.split())
"""Names that LLVM in jaxlib 0.11.2 to 0.12.0.1 knows, of level x86-64-v2 or higher: an unknown one
ends the compiler with a segmentation fault. `scripts/llvm_processors.py check` compares.
"""

_FEATURE_NAMES = """
    64bit adx aes amx-avx512 amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs amx-tile avx
    avx10.1 avx10.2 avx10v2aux avx2 avx512bf16 avx512bitalg avx512bmm avx512bw avx512cd avx512dq
    avx512f avx512fp16 avx512ifma avx512vbmi avx512vbmi2 avx512vl avx512vnni avx512vp2intersect
    avx512vpopcntdq avxifma avxneconvert avxvnni avxvnniint16 avxvnniint8 bmi bmi2 ccmp cf cldemote
    clflushopt clwb clzero cmov cmpccxadd crc32 cx16 cx8 egpr enqcmd f16c fma fma4 fsgsbase fxsr
    gfni hreset invpcid jmpabs kl lwp lzcnt mmx movbe movdir64b movdiri movrs mwaitx ndd nf pclmul
    pconfig pku popcnt ppx prefetchi prfchw ptwrite push2pop2 raoint rdpid rdpru rdrnd rdseed rtm
    sahf serialize sgx sha sha512 shstk sm3 sm4 sse sse2 sse3 sse4.1 sse4.2 sse4a ssse3 tbm
    tsxldtrk uintr usermsr vaes vpclmulqdq waitpkg wbnoinvd widekl xop xsave xsavec xsaveopt xsaves
    zu
"""

FEATURES = frozenset(_FEATURE_NAMES.split())
"""LLVM's names of x86-64 features, as jaxlib 0.12.0.1 lists them for a host; LLVM ignores an
unknown one without an error."""

_UNUSED_NAMES = """
    adx aes amx-avx512 amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs amx-tile
    avx512vp2intersect cldemote clflushopt clwb clzero enqcmd fsgsbase hreset invpcid kl movdir64b
    movdiri mwaitx pclmul pconfig pku prefetchi prfchw ptwrite rdpid rdpru rdrnd rdseed rtm
    serialize sgx sha sha512 shstk sm3 sm4 tsxldtrk uintr usermsr vaes vpclmulqdq waitpkg wbnoinvd
    widekl xsavec xsaveopt xsaves
"""

UNUSED = frozenset(_UNUSED_NAMES.split())
"""Features that no numeric code is made of, and that hypervisors and firmware often withhold: of
the system (pku, shstk, rtm…), of cryptography, and AMX, for which XLA generates nothing. In a
target they would only refuse hosts that could run the code. What a target leaves out is denied to
the compiler by name (`llvm` below), so that leaving out too much could cost speed, never a crash.
"""

ARM_TRIPLE = "aarch64-unknown-linux-gnu"

_ARM_CPU_NAMES = """
    apple-m1 apple-m2 apple-m3 apple-m4 cortex-a72 cortex-a76 generic neoverse-n1 neoverse-n2
    neoverse-v1 neoverse-v2
"""

ARM_CPUS = tuple(_ARM_CPU_NAMES.split())
"""Names of aarch64 processors that LLVM in IREE 3.13.0 knows."""

_ARM_FEATURE_NAMES = """
    aes bf16 complxnum crc dotprod fp-armv8 fp16fml fullfp16 i8mm jsconv lse neon rcpc rdm sha2 sha3
    sm4 sve sve2 sve2-bitperm
"""

ARM_FEATURES = frozenset(_ARM_FEATURE_NAMES.split())
"""Features that numeric code may be made of, or that processors' names stand for, of those that
Linux tells (`aotc_runtime.system.cpu_features`).
"""

_TUNING_PREFIXES = ("prefer-", "fast-", "slow-", "false-deps-", "tuning-")
_TUNING = frozenset({"idivq-to-divl", "macrofusion", "branchfusion", "no-bypass-delay"})


def is_arm(triple: str) -> bool:
    """Return whether a triple is of aarch64."""
    return triple.partition("-")[0] == "aarch64"


def is_tuning(feature: str) -> bool:
    """Return whether a feature only shapes code generation.

    XLA writes `prefer-no-gather` and the like among the features of a machine. Code compiled with
    them runs anywhere, so a host must not be refused for lacking them.
    """
    return feature in _TUNING or feature.startswith(_TUNING_PREFIXES)


def split(features: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split XLA's features ("+avx2", "-rtm") into sorted (required, tuning) names."""
    present = sorted({name[1:] for name in features if name.startswith("+")})
    required = tuple(name for name in present if not is_tuning(name))
    return required, tuple(name for name in present if is_tuning(name))


def names(features: Iterable[str]) -> frozenset[str]:
    """Return the features of XLA's list for a machine, present or not, without tuning."""
    return frozenset(name[1:] for name in features if name[:1] in "+-" and not is_tuning(name[1:]))


def llvm(required: Iterable[str], tuning: Iterable[str], known: Iterable[str]) -> str:
    """Return the feature string for LLVM: "-avx512f,…,+64bit,+avx,…".

    `known` has all features of this LLVM. Those not required are excluded by name: a processor name
    implies features (`skylake-avx512` AVX-512) that the code would use without requiring them of
    the host. They come first, so that "+avx2" restores what "-avx" removed.
    """
    wanted = set(required)
    absent = [f"-{name}" for name in sorted(set(known) - wanted)]
    return ",".join([*absent, *(f"+{name}" for name in sorted(wanted | set(tuning)))])
