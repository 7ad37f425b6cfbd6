"""Names of aarch64 processors and of their features, as LLVM has them."""

from __future__ import annotations

ARCHITECTURE = "aarch64"
TRIPLE = "aarch64-unknown-linux-gnu"

CPUS = (
    "apple-m1",
    "apple-m2",
    "apple-m3",
    "apple-m4",
    "cortex-a72",
    "cortex-a76",
    "generic",
    "neoverse-n1",
    "neoverse-n2",
    "neoverse-v1",
    "neoverse-v2",
)
"""Names that LLVM in IREE 3.13.0 knows."""

FEATURES = frozenset(
    """
    aes bf16 complxnum crc dotprod fp-armv8 fp16fml fullfp16 i8mm jsconv lse neon rcpc rdm sha2 sha3
    sm4 sve sve2 sve2-bitperm
    """.split()  # noqa: SIM905 - one each would be twenty lines
)
"""Features that numeric code may be made of, or that processors' names stand for, of those that
Linux tells (`aotc_runtime.system.cpu_features`).
"""


def is_triple(triple: str) -> bool:
    """Whether a triple is of this architecture."""
    return triple.partition("-")[0] == ARCHITECTURE
