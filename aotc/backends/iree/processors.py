"""What LLVM in IREE's compiler is told of a processor."""

from __future__ import annotations

from aotc.backends.cpu import arm, isa
from aotc_runtime.schema.manifest import Target


def llvm_features(target: Target) -> str:
    """Features for LLVM: every known one that the target lacks is ruled out by name, since a
    processor's name stands for features of its own, which nobody would require of the host.
    """
    known = arm.FEATURES if arm.is_triple(target.triple) else isa.FEATURES
    return isa.llvm(target.features, target.tuning, known)
