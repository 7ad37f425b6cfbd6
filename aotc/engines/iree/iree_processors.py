"""What LLVM in IREE's compiler is told of a processor."""

from __future__ import annotations

from aotc.compile.cpu import arm_processors, cpu_isa
from aotc_runtime.schema.bundle_manifest import Target


def llvm_features(target: Target) -> str:
    """Features for LLVM: every known one that the target lacks is ruled out by name, since a
    processor's name stands for features of its own, which nobody would require of the host.
    """
    known = arm_processors.FEATURES if arm_processors.is_triple(target.triple) else cpu_isa.FEATURES
    return cpu_isa.llvm(target.features, target.tuning, known)
